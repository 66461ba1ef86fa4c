"""The wiring page is what the registry says, and the registry says what an update does."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
from tiny_trial import WIRED, started, tiny_spec

from sweep import cli
from trainer import wiring
from trainer.components import FIXED, NINE
from trainer.config import FEATURES, GemConfig
from trainer.gems.registry import AUX_ORDER, GemError, component_name
from trainer.loop import end_epoch
from trainer.params import SLICES
from trainer.probe import measure_probe
from trainer.signals import FEATURE_SLOTS, SLOTS, Slot
from trainer.step import update, walk
from trainer.wiring import WiringError, calls, read_wiring, resolve, writer_source
from trainer.wiring_page import markdown, sections

ROOT = Path(__file__).resolve().parents[2]
GEM = """
from trainer.gems import Gem


class Spread(Gem):
    name = "spread"
    inputs = ("value_hidden",)

    def forward(self, ctx):
        return ctx.value_hidden.square().mean(-1)
"""


@pytest.fixture
def user_gem(tmp_path):
    path = tmp_path / "spread_gem.py"
    path.write_text(GEM)
    return f"{path}:Spread"


def test_the_page_is_generated():
    page = ROOT / "docs" / "wiring.md"
    assert page.read_text() == markdown(read_wiring()), (
        "stale: bring it up to date with `gemsweep wiring --markdown > docs/wiring.md`"
    )


@pytest.mark.parametrize("source", sorted({c.source for c in FIXED} | {writer_source(slot) for slot in SLOTS}))
def test_every_source_and_every_writer_is_a_function(source):
    assert callable(resolve(source))


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("trainer.sources:iqm", "no attribute 'iqm'"),
        ("trainer.sauces:iqn", "No module named 'trainer.sauces'"),
        ("trainer.sources:BACKWARD", "is no function but dict"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(source, named, monkeypatch):
    broken = dataclasses.replace(FIXED[0], source=source)
    monkeypatch.setattr(wiring, "FIXED", (broken, *FIXED[1:]))
    with pytest.raises(WiringError, match=source) as refused:
        read_wiring()
    assert named in str(refused.value)


def test_a_slot_whose_writer_nothing_calls_is_an_error(monkeypatch):
    monkeypatch.setattr(wiring, "SLOTS", (Slot("winrate", "1", 0.0, "sharpe.iqm"),))
    with pytest.raises(WiringError, match=r"slot winrate: its writer trainer/sharpe\.py:iqm is called by no"):
        read_wiring()


def test_an_auxiliary_source_that_the_step_forgets_is_an_error(monkeypatch):
    monkeypatch.setattr(wiring.step, "aux_ops", wiring.step.graph_forward)
    with pytest.raises(WiringError, match="does not call the sources of"):
        read_wiring()


def test_components_come_in_the_order_of_the_health_line_and_gems_after():
    names = [line.component.name for line in read_wiring().lines]
    assert tuple(names[: len(NINE)]) == NINE
    assert names[len(NINE) :] == ["gem:g6_branch_indep", "gem:g10_temporal"]


def test_auxiliary_operations_come_in_the_order_of_the_seeds_and_users_last(user_gem):
    order = [line.component.name for line in read_wiring([user_gem]).aux_order]
    assert order == ["cql_sx", "distill", *map(component_name, AUX_ORDER), "gem:spread"]


def test_a_gem_of_the_user_is_listed_with_its_file(user_gem, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    line = read_wiring([user_gem]).lines[-1]
    assert line.place == "spread_gem.py:Spread.forward"
    assert line.component.reach == ("trunk", "value", "noise")
    assert line.off_by == "its mode"


def test_a_gem_that_is_not_there_is_named(tmp_path):
    with pytest.raises(GemError, match=r"there is no file .*gone\.py"):
        read_wiring([f"{tmp_path / 'gone.py'}:Gone"])


def test_every_slot_is_on_the_page_once():
    shown = [row[0] for s in sections(read_wiring()) if s.header[0] == "slot" for row in s.rows]
    named = [name for name in shown if not name.startswith("gem/<gem>/")]
    assert sorted(named) == sorted(slot.name for slot in SLOTS)


def test_calls_are_read_in_the_order_of_the_text():
    phases = ("graph_forward", "aux_ops", "graph_adam")
    assert tuple(name for name in calls(wiring.step.update) if name in phases) == phases


@pytest.fixture(scope="module")
def measured(market_file, tmp_path_factory):
    """Norms `[C, S]` of one diagnostic update with every component's gates open, by component and slice."""
    path = tmp_path_factory.mktemp("gem") / "spread_gem.py"
    path.write_text(GEM)
    arm = WIRED.model_copy(update={"gems": {**WIRED.gems, f"{path}:Spread": GemConfig(mode="wired")}})
    spec = tiny_spec(market_file, ["wired 3 0"], arms=(arm,))
    spec = spec.model_copy(update={"trainer": spec.trainer.model_copy(update=_early(spec.trainer))})
    pack = started(spec)
    with torch.no_grad():
        for _ in range(4):
            walk(pack)
            update(pack, False)
        end_epoch(pack, measure_probe(pack), 1)
        for _ in range(2):  # away from the snapshot
            walk(pack)
            update(pack, False)
        pack.signals["learning_health"].zero_()
        pack.measurements.clear()
        update(pack, True)
    assert pack.features == set(FEATURES)
    return pack.components, pack.measurements.norms[:, 0].tolist()


def _early(trainer):
    """IQN enters the trunk from its second update on."""
    return {"iqn": trainer.iqn.model_copy(update={"warmup_updates": 0, "ramp_updates": 1})}


def test_every_component_is_measured(measured):
    names = [component.name for component in measured[0]]
    assert names == [*NINE, "gem:g6_branch_indep", "gem:g10_temporal", "gem:spread"]


def test_the_reach_is_what_an_update_writes(measured):
    for component, norms in zip(*measured, strict=True):
        written = tuple(part for part, norm in zip(SLICES, norms, strict=True) if norm != 0)
        assert written == component.reach, component.name


def test_a_feature_closes_a_gate_of_its_component():
    for component in FIXED:
        if component.feature and component.name != "cql":  # which is measured and never applied
            slots = set(FEATURE_SLOTS[component.feature])
            follow = {"cql_coefficient"} if component.feature == "cql" else set()  # the schedule between its weights
            assert (slots | follow) & set(component.gates), component.name


def gemsweep(monkeypatch, capsys, *arguments):
    """Exit code, standard output and error of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["gemsweep", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_the_verb_prints_the_page_or_the_tables(monkeypatch, capsys, user_gem):
    code, out, _ = gemsweep(monkeypatch, capsys, "wiring", "--markdown")
    assert (code, out) == (0, markdown(read_wiring()))
    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = gemsweep(monkeypatch, capsys, "wiring", "--gem", user_gem)
    assert code == 0
    for section in sections(read_wiring([user_gem])):
        assert section.title in out
    assert "gem:spread" in out


def test_nothing_is_folded_where_no_terminal_is(monkeypatch, capsys):
    """A pipe has no width: every place of the page stands whole on its line, to be searched for."""
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = gemsweep(monkeypatch, capsys, "wiring")
    for line in read_wiring().lines:
        assert any(line.place in shown for shown in out.splitlines()), line.place


def test_the_verb_refuses_in_one_line(monkeypatch, capsys, tmp_path):
    for gem, named in ((f"{tmp_path / 'gone.py'}:Gone", "there is no file"), ("gone", "give a built-in name")):
        code, out, err = gemsweep(monkeypatch, capsys, "wiring", "--gem", gem)
        assert (code, out) == (2, "")
        assert named in err
        assert len(err.splitlines()) == 1
    monkeypatch.setattr(wiring, "SLOTS", (Slot("winrate", "1", 0.0, "sharpe.winrate"),))
    code, _, err = gemsweep(monkeypatch, capsys, "wiring")
    assert code == 2
    assert err.startswith("error: slot winrate: trainer.sharpe:winrate: there is no such function")
    assert len(err.splitlines()) == 1
