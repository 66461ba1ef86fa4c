"""`gemsweep smoke` runs its trial without Ray, leaves an ordinary experiment, and fails on new failures only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import analysis
from analysis.smokes import SMOKES, Finding
from sweep import cli, smoke
from trainer import step
from trainer.record import read_done

ROOT = Path(__file__).resolve().parents[2]


def gemsweep(monkeypatch, capsys, *arguments):
    """Exit code, standard output and error of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["gemsweep", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """The folder of the fixed trial, cut to two epochs of four updates."""
    config = smoke.smoke_config(storage=str(tmp_path_factory.mktemp("smokes")))
    cut = {"epochs": 2, "updates_per_epoch": 4, "score_epochs": 1, "network": {"trunk": [8, 8], "head": 8, "atoms": 11}}
    return smoke.run_trial_here(config.model_copy(update={"trainer": config.trainer | cut}))


def test_the_folder_is_an_ordinary_experiment(short):
    experiment = analysis.load(short)
    assert experiment.problems == ()
    assert list(experiment.trials["status"]) == ["done"]
    assert sorted(set(experiment.epochs["arm"])) == ["base", "off", "wired-g12_predictive-0.1"]
    assert len(experiment.members) == 12
    assert experiment.purity.state == "pure"
    assert read_done(short, experiment.trials["trial"][0])["summary"]["epochs"] == 2
    assert {name: type(run(experiment)) for name, run in SMOKES.items()} == dict.fromkeys(SMOKES, Finding)


def test_its_members_can_be_replayed(short):
    from trainer.debug import check

    assert check(short, analysis.load(short).trials["trial"][0]).identical


def test_ray_is_not_loaded():
    check = "import sweep.smoke, trainer.loop, trainer.reporter, sweep.plan, sys; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"


def test_the_bars_are_the_same_on_every_call_and_predict_themselves(tmp_path):
    first, second = smoke.make_bars(), smoke.make_bars()
    assert first.equals(second)
    returns = np.diff(np.log(first["close"]))
    assert abs(np.corrcoef(returns[:-1], returns[1:])[0, 1] - smoke.CARRY) < 0.05
    assert (first["open"].to_numpy()[1:] == first["close"].to_numpy()[:-1]).all()
    path = tmp_path / "storage" / smoke.BARS_FILE
    smoke.write_bars(path)
    before = path.stat().st_mtime_ns
    smoke.write_bars(path)
    assert path.stat().st_mtime_ns == before


def test_two_smokes_are_one_configuration(tmp_path):
    first, second = (smoke.smoke_config(name, str(tmp_path)) for name in ("a", "b"))
    assert (first.data, first.trainer, first.arms) == (second.data, second.trainer, second.arms)


GOOD, BAD = Finding(True, 0.5, 0.1, "as it should be"), Finding(False, 0.01, 0.1, "collapsed: one size everywhere")


def planned_outcomes(monkeypatch, short, now, before):
    """Let the command find `now` in its own run and `before` in the earlier experiment."""
    import analysis.smokes

    asked = iter([before, now] if before else [now])
    names = list(SMOKES)
    monkeypatch.setattr(smoke, "run_trial_here", lambda config: short)
    monkeypatch.setattr(analysis.smokes, "findings", lambda experiment: dict(zip(names, next(asked), strict=True)))


def test_any_failure_counts_without_an_earlier_experiment(monkeypatch, capsys, short):
    planned_outcomes(monkeypatch, short, [BAD, GOOD, GOOD, GOOD, GOOD], None)
    code, out, _ = gemsweep(monkeypatch, capsys, "smoke")
    assert code == 1
    assert "magnitude_distribution failed; 4 passed" in out
    assert "magnitude_distribution: collapsed: one size everywhere" in out
    assert str(short) in out


def test_a_failure_that_was_there_before_is_old_and_the_command_succeeds(monkeypatch, capsys, short):
    planned_outcomes(monkeypatch, short, [BAD, GOOD, GOOD, GOOD, GOOD], [BAD, GOOD, GOOD, GOOD, GOOD])
    code, out, _ = gemsweep(monkeypatch, capsys, "smoke", "--against", short)
    assert code == 0
    assert f"magnitude_distribution: failed in {short} already; 4 pass in both" in out
    row = next(line for line in out.splitlines() if line.startswith("magnitude_distribution"))
    figures = ["magnitude_distribution", "old", "failure", "0.01", "at", "least", "0.1", "failed", "0.01"]
    assert row.split()[: len(figures)] == figures
    assert row.rstrip().endswith("are all three sizes in use? (entropy of the greedy size)")


def test_a_new_failure_is_told_from_an_old_one_and_from_a_mended_one(monkeypatch, capsys, short):
    planned_outcomes(monkeypatch, short, [BAD, BAD, GOOD, GOOD, GOOD], [BAD, GOOD, BAD, GOOD, GOOD])
    code, out, _ = gemsweep(monkeypatch, capsys, "smoke", "--against", short)
    assert code == 1
    said = (
        f"gradient_decomposition: new failure; magnitude_distribution: failed in {short} already; gem_signals: fixed; "
        f"2 pass in both"
    )
    assert said in out


def test_no_such_experiment_is_one_line_and_nothing_runs(monkeypatch, capsys, tmp_path):
    code, out, err = gemsweep(
        monkeypatch, capsys, "smoke", "--storage", tmp_path / "new", "--against", tmp_path / "gone"
    )
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'gone'}")
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_one_line(monkeypatch, capsys, short):
    code, _, err = gemsweep(monkeypatch, capsys, "smoke", "--storage", short.parent, "--name", short.name)
    assert code == 2
    assert f"{short} exists" in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_five_pass_and_a_distillation_that_does_nothing_is_a_new_failure(monkeypatch, capsys, tmp_path):
    code, out, _ = gemsweep(monkeypatch, capsys, "smoke", "--storage", tmp_path)
    assert "all 5 smokes pass" in out
    assert code == 0
    monkeypatch.setattr(step, "distill", lambda pack, diagnose: torch.zeros(pack.size))
    code, out, _ = gemsweep(monkeypatch, capsys, "smoke", "--storage", tmp_path, "--against", tmp_path / "smoke-test")
    assert code == 1
    failing = {line.split()[0] for line in out.splitlines() if "NEW failure" in line}
    assert failing == {"collapse_recovery"}
