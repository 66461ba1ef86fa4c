"""docs/records.md says what is really recorded: columns, dtypes, slots, files, checkpoint tensors."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from tiny_trial import run, tiny_spec

from trainer import run_trial
from trainer.components import NINE
from trainer.config import BUILTIN_GEMS, FEATURES
from trainer.params import SLICES
from trainer.probe import BRANCHES, LAYERS
from trainer.record import TrialStore, encode_columns
from trainer.reporter import StoreReporter
from trainer.signals import COUNTERS, SLOTS, Signals

PAGE = Path(__file__).parents[2] / "docs" / "records.md"
PLACEHOLDERS = {
    "component": "|".join((*NINE, "gem:g6_branch_indep", "gem:g10_temporal")),
    "feature": "|".join(FEATURES),
    "branch": "|".join(BRANCHES),
    "layer": "|".join(LAYERS),
    "slice": "|".join(SLICES),
    "gem": "|".join(BUILTIN_GEMS),
    "span": "train|validation|judge",
    "counter": "|".join(COUNTERS),
    "slot": "[a-z0-9_/]+",
    "key": "0123456789-b0",
    "epoch": r"\d{5}",
    "hash": "[0-9a-f]{16}",
}

DTYPES = {"float": "float32", "double": "float64", "list<item: double>": "list<double>"}  # Arrow's name: ours


def table(heading):
    """Cells of all table rows below a heading, up to the next of the same depth."""
    depth = re.match("#+", heading).group()
    section = PAGE.read_text().split(f"\n{heading}\n")[1].split(f"\n{depth} ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    assert rows
    return rows


def pattern(cell):
    """Regular expression of a name in code quotes with <placeholders>."""
    parts = re.split(r"<(\w+)>", cell.strip("`"))
    return "".join(f"(?:{PLACEHOLDERS[part]})" if i % 2 else re.escape(part) for i, part in enumerate(parts))


@pytest.fixture(scope="module")
def seen(market_file):
    return run(tiny_spec(market_file, ["base 0 0", "wired 1 1"]))


def test_every_column_is_described_once_with_its_dtype(seen):
    rows = table("## Columns of a part")
    schema = encode_columns(seen.records[-1].columns).schema
    used = set()
    for field in schema:
        described = [row for row in rows if re.fullmatch(pattern(row[0]), field.name)]
        assert len(described) == 1, field.name
        assert DTYPES.get(str(field.type), str(field.type)) == described[0][1], field.name
        used.add(described[0][0])
    assert used == {row[0] for row in rows}


def test_every_slot_is_described(seen):
    described = {row[0].strip("`"): row[1:] for row in table("## Signal slots")}
    for slot in SLOTS:
        assert described[slot.name] == [slot.unit, f"{slot.default:g}", slot.writer]
    names = Signals(1, ("x",), seen.checkpoint.tensors["signals"].device).names
    assert described.keys() == {name.replace("gem/x/", "gem/<gem>/") for name in names}


@pytest.mark.parametrize("writer", sorted({slot.writer for slot in SLOTS} - {"config", "constant"}))
def test_the_writer_of_a_slot_exists(writer):
    module, name = writer.split(".")
    assert callable(getattr(import_module(f"trainer.{module}"), name))


def test_every_checkpoint_tensor_is_described(seen):
    described = [name for row in table("## Checkpoint tensors") for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(described) == sorted(seen.checkpoint.tensors)
    assert {tensor.shape[0] for tensor in seen.checkpoint.tensors.values()} == {2}


def test_every_file_of_a_trial_is_described(market_file, tmp_path):
    spec = tiny_spec(market_file, epochs=1)
    with TrialStore(tmp_path, spec) as store:
        run_trial(spec, StoreReporter(store))
    patterns = [pattern(row[0]) for row in table("## Folder")]
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 7
    for name in files:
        assert any(re.fullmatch(text, name) for text in patterns), name
