"""A resume goes on with the bars and the gems of the plan, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from sweep.config import SweepConfig
from sweep.errors import ResumeError
from sweep.experiment import create, open_plan, taken, unfinished
from sweep.inputs import check_inputs
from sweep.plan import make_plan
from sweep.run import resume, run, usable_name
from sweep.toml_file import read_config
from sweep.trainable import run_key
from trainer.config import Machine
from trainer.data import load_bars
from trainer.record import read_failed, read_plan, stored_epochs, trial_status

GEM = """
from trainer.gems import Gem

class Mine(Gem):
    name = "mine"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.sum(-1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment that is planned on files of its own and not yet run."""
    frame = load_bars("us-daily", symbols=("IBM",)).frames["IBM"]
    frame.reset_index().rename(columns={"index": "timestamp"}).to_csv(tmp_path / "IBM.csv", index=False)
    (tmp_path / "mine.py").write_text(GEM)
    folder = tmp_path / "planned"
    config = configuration(tmp_path)
    create(folder, config, make_plan(config, Machine()))
    return folder


def configuration(place: Path) -> SweepConfig:
    settings = [f"data.source={place / 'IBM.csv'}", f"arms.gems=['{place / 'mine.py'}:Mine']", "sweep.name='planned'"]
    small = ["trainer.epochs=1", "trainer.score_epochs=1", "trainer.updates_per_epoch=4", "sweep.trials=1"]
    return read_config(None, [*settings, *small, "sweep.seeds=1"], {"sweep.storage": str(place)})


def change_bars(place: Path) -> None:
    bars = pd.read_csv(place / "IBM.csv")
    bars.loc[2000:, ["open", "high", "low", "close"]] *= 1.5
    bars.to_csv(place / "IBM.csv", index=False)


CHANGES = {
    "other bars": (change_bars, "the bars of .*IBM.csv changed since the plan was made"),
    "no bars": (lambda place: (place / "IBM.csv").unlink(), "IBM.csv"),
    "another gem": (lambda place: (place / "mine.py").write_text(GEM + "\n"), "gem mine .* changed since the plan"),
    "no gem": (lambda place: (place / "mine.py").unlink(), "the file of gem mine"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_the_plan_is_refused_before_anything_starts(folder, change):
    alter, named = CHANGES[change]
    alter(folder.parent)
    with pytest.raises(ResumeError, match=named) as caught:
        resume(folder, Console(quiet=True), quiet=True)
    assert caught.value.exit_code == 4
    assert {trial_status(folder, key) for key in open_plan(folder)} == {"waiting"}


def test_a_worker_on_another_machine_refuses_too_and_records_nothing(folder):
    change_bars(folder.parent)
    key = next(iter(open_plan(folder)))
    run_key(folder, key, lambda metrics: None)
    assert "changed since the plan was made" in read_failed(folder, key)["error"]
    assert list(stored_epochs(folder, key)) == []


def test_unchanged_inputs_pass(folder):
    plan, spec = read_plan(folder), next(iter(open_plan(folder).values()))
    check_inputs(plan, spec.data)


def test_a_flipped_byte_in_a_finished_trial_is_computed_again(folder):
    key = next(iter(open_plan(folder)))
    run_key(folder, key, lambda metrics: None)
    assert unfinished(folder, open_plan(folder)) == []
    part = next((folder / "trials" / key / "epochs").glob("00001-*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(bytes(content))
    assert unfinished(folder, open_plan(folder)) == [key]
    with pytest.warns(UserWarning, match="damaged"):
        run_key(folder, key, lambda metrics: None)
    assert unfinished(folder, open_plan(folder)) == []


def test_a_folder_without_a_plan_is_not_said_to_be_resumable(folder):
    assert "gemsweep resume" in str(taken(folder))
    (folder / "plan.json").unlink()
    assert "gemsweep resume" not in str(taken(folder))
    assert "delete it" in str(taken(folder))


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("my", "my"),
        ("_my", "my"),
        (".x", "x"),
        ("ünï (1)", "n-1"),
        ("日本", "sweep"),
        ("a" * 300, "a" * 80),
        ("a b.", "a-b"),
    ],
)
def test_the_stem_of_a_file_becomes_a_name_that_a_resume_accepts(stem, name):
    assert usable_name(stem) == name
    assert SweepConfig.model_validate({"sweep": {"name": f"{name}-2"}}).sweep.name == f"{name}-2"


def test_a_sweep_of_an_oddly_named_file_can_be_resumed(folder, tmp_path):
    config = configuration(folder.parent)
    config = config.model_copy(update={"sweep": config.sweep.model_copy(update={"name": ""})})
    shutil.rmtree(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sweep.run._run_left", lambda folder, *_: folder)
        made = run(config, Console(quiet=True), fallback_name="_my (1)", quiet=True)
        assert resume(made, Console(quiet=True), quiet=True) == made
