"""What stands in the way of any verb is one line on standard error with an exit code, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fake_body import FakeBody, configuration

from sweep import cli, conclusion
from sweep.config import SweepConfig
from sweep.domains import Domain
from sweep.errors import ConfigError
from sweep.experiment import create, open_plan
from sweep.plan import make_plan
from sweep.run import Outcome
from sweep.schema_errors import strictly
from sweep.toml_file import read_config
from trainer.config import Machine
from trainer.data import load_bars
from trainer.record import TrialStore, read_plan, write_plan
from trainer.reporter import StoreReporter

GEM = """
from trainer.gems import Gem

class Mine(Gem):
    name = "mine"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.sum(-1)
"""


def gemsweep(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    """Exit code and standard error of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["gemsweep", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One trial, finished, on bars and a gem in files of its own."""
    frame = load_bars("us-daily", symbols=("IBM",)).frames["IBM"]
    frame.reset_index().rename(columns={"index": "timestamp"}).to_csv(tmp_path / "IBM.csv", index=False)
    (tmp_path / "mine.py").write_text(GEM)
    own = [f"data.source={tmp_path / 'IBM.csv'}", f"arms.gems=['{tmp_path / 'mine.py'}:Mine']", "sweep.trials=1"]
    config = configuration(tmp_path, *own)
    create(tmp_path / "fake", config, make_plan(config, Machine()))
    for spec in open_plan(tmp_path / "fake").values():
        with TrialStore(tmp_path / "fake", spec) as store:
            FakeBody(tmp_path / "ledger")(spec, StoreReporter(store))
    return tmp_path / "fake"


@pytest.mark.parametrize("gone", ["IBM.csv", "mine.py"])
def test_debug_without_its_data_or_gem(monkeypatch, capsys, folder, gone):
    (folder.parent / gone).unlink()
    code, err = gemsweep(monkeypatch, capsys, "debug", str(folder), "--trial", next(iter(open_plan(folder))))
    assert code == 2
    assert err.startswith("error: ")
    assert gone in err
    assert len(err.splitlines()) == 1


def test_debug_refuses_epochs_before_the_first(monkeypatch, capsys, folder):
    key = next(iter(open_plan(folder)))
    code, err = gemsweep(monkeypatch, capsys, "debug", str(folder), "--trial", key, "--epochs", "-3")
    assert code == 2
    assert "--epochs" in err


OLD_PLANS = {
    "gems by name": {"gems": ["g6_branch_indep"]},
    "schema 0": {"schema": 0},
}


@pytest.mark.parametrize("old", OLD_PLANS)
def test_a_plan_of_an_older_version(monkeypatch, capsys, folder, old):
    write_plan(folder, read_plan(folder) | OLD_PLANS[old], replace=True)
    code, err = gemsweep(monkeypatch, capsys, "resume", str(folder))
    assert code == 4
    assert "plan.json" in err
    assert "older" in err
    assert len(err.splitlines()) == 1


def test_a_resume_of_a_plan_that_never_digested_its_gems(monkeypatch, capsys, folder):
    plan = read_plan(folder)
    for row in plan["gems"]:
        del row["sha256"]
    write_plan(folder, plan, replace=True)
    code, err = gemsweep(monkeypatch, capsys, "resume", str(folder))
    assert code == 4
    assert "gems: mine: sha256" in err


def test_a_report_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    def refuse(experiment):
        raise PermissionError(13, "Permission denied", str(tmp_path / "report.html"))

    monkeypatch.setattr(sys.modules["analysis.load"], "load", lambda folder: None)
    monkeypatch.setattr(sys.modules["analysis.tables"], "print_report", lambda experiment: None)
    monkeypatch.setattr(sys.modules["analysis.report"], "write_report", refuse)
    code, err = gemsweep(monkeypatch, capsys, "report", str(tmp_path))
    assert (code, err) == (2, f"error: {tmp_path}/report.html: the report cannot be written (Permission denied)\n")


@pytest.mark.parametrize(
    ("failed", "left", "said", "unsaid"),
    [
        ({}, ["a"], "1 trial is not finished", "mended"),
        ({}, ["a", "b"], "2 trials are not finished", "mended"),
        ({"a": "ValueError: x"}, ["a"], "when the cause is mended", "not finished"),
        ({"a": "ValueError: x"}, ["a", "b"], "1 trial is not finished", "trials are"),
    ],
)
def test_the_way_on_after_a_launch(monkeypatch, capsys, tmp_path, failed, left, said, unsaid):
    monkeypatch.setattr(conclusion, "print_report_of", lambda folder: None)
    with pytest.raises(conclusion.typer.Exit):
        conclusion.conclude(Outcome(tmp_path, failed, left))
    out = capsys.readouterr().out
    assert said in out
    assert unsaid not in out


@pytest.mark.parametrize("name", ["_my", ".x", "a b", "ünï", "a/b", "a" * 101, "a\n"])
def test_a_name_that_is_no_folder_is_refused_in_words(name):
    with pytest.raises(ConfigError, match=r"^sweep\.name: must be letters, digits"):
        strictly(SweepConfig, {"sweep": {"name": name}})


def test_a_long_range_of_integers_is_not_spelled_out():
    domain = Domain("randint", (1, 10**15))
    assert isinstance(domain.options, range)
    assert domain.at(0.5) == 1 + (10**15 - 1) // 2


def test_a_source_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x.csv").touch()
    assert read_config(None, ["data.source=~/x.csv"], {}).data.source == str(tmp_path / "x.csv")
