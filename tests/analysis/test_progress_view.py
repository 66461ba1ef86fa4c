"""How far a sweep is, seen from another terminal: from files alone, whatever state they are in."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from synthetic_experiment import GEMS, TIMELINE, plan_of, specs, write_experiment, write_trial

from analysis import progress_state
from analysis.evidence import unit_sizes
from analysis.load import load
from analysis.progress_state import Watch
from analysis.progress_view import follow, show, summary
from analysis.rules import VerdictRules
from analysis.signals import signals
from trainer.record import RecordError, write_plan, write_timeline
from trainer.record.lock import TrialLock
from trainer.sharpe import FLOOR, iqm

TRIALS = specs(configs=4, seeds=2, folds=1, epochs=4, off=False)


@pytest.fixture
def folder(tmp_path):
    """Done, failed, stopped after epoch 2, not begun."""
    write_plan(tmp_path, plan_of(TRIALS, name="watched"))
    write_timeline(tmp_path, TIMELINE)
    write_trial(tmp_path, TRIALS[0])
    write_trial(tmp_path, TRIALS[1], fail="pack", stop_after=1)
    write_trial(tmp_path, TRIALS[2], stop_after=2)
    return tmp_path


def shown(folder, width=100):
    text = io.StringIO()
    show(folder, Console(width=width, file=text))
    return text.getvalue()


class Clock:
    """Time that passes only while somebody sleeps; `events[n]` happens during the n-th sleep."""

    def __init__(self, *events):
        self.time, self.events = 0.0, list(events)

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        if self.events:
            self.events.pop(0)()


def followed(folder, clock):
    text = io.StringIO()
    follow(folder, Console(width=100, file=text), every=1.0, idle=3.0, sleep=clock.sleep, now=clock.now)
    return text.getvalue()


def test_the_state_of_every_trial(folder):
    state = Watch(folder).look()
    assert [(t.status, t.epoch, t.epochs) for t in state.trials] == [
        ("done", 4, 4), ("failed", 1, 4), ("waiting", 2, 4), ("waiting", -1, 4),
    ]  # fmt: skip
    assert state.trials[1].failure == "pack: made up"
    assert (state.idle, state.ended, state.seconds_left) == (True, False, None)
    assert summary(state).startswith("watched: trials 1/4 done · 1 failed · epochs 7/16 · leading now: validation IQM")


def test_iqm_best_and_interval_of_a_trial(folder):
    trial = Watch(folder).look().trials[0]
    epochs = load(folder).epochs
    own = epochs[epochs["trial"] == trial.trial]
    by_epoch = own.groupby("epoch")["eval/validation/sharpe"].apply(lambda values: iqm(values.to_numpy()))
    assert trial.iqm == pytest.approx(by_epoch.iloc[-1])
    assert trial.best == pytest.approx(by_epoch.iloc[1:].max())
    assert trial.best_epoch == by_epoch.iloc[1:].idxmax()
    assert trial.low <= trial.best <= trial.high


def test_failed_members_stand_at_the_floor(tmp_path):
    trials = specs(configs=1, seeds=2, folds=1, epochs=3, off=False)
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], frozen=[(0, 0), (1, 0)])
    trial = Watch(tmp_path).look().trials[0]
    assert (trial.frozen, trial.iqm) == (2, FLOOR)
    assert trial.best_epoch == 1
    assert "2 (2 frozen)" in shown(tmp_path)


def test_sizes_of_a_finished_experiment_are_those_of_its_verdict(tmp_path):
    write_experiment(tmp_path, specs(configs=3, seeds=2, folds=1, epochs=6, off=False))
    experiment, state = load(tmp_path), Watch(tmp_path).look()
    assert [size.gem for size in state.sizes] == list(GEMS)
    for size in state.sizes:
        logs = unit_sizes(signals(experiment, size.gem), VerdictRules())[0]["log10_size"]
        assert (size.n, size.size) == (3, pytest.approx(10.0 ** logs.mean()))


def test_a_part_is_read_once_however_often_one_looks(folder, monkeypatch):
    read = []
    once = progress_state.read_table
    monkeypatch.setattr(progress_state, "read_table", lambda path, *a: read.append(path) or once(path, *a))
    watch = Watch(folder)
    assert watch.look() == watch.look()
    assert len(read) == len(set(read)) == 10
    write_trial(folder, TRIALS[3], stop_after=0)
    assert watch.look().trials[3].epoch == 0
    assert len(read) == 11


def test_a_damaged_part_costs_itself_alone(folder):
    part = sorted((folder / "trials" / TRIALS[0].key / "epochs").iterdir())[2]
    part.write_bytes(b"no parquet")
    state = Watch(folder).look()
    assert state.trials[0].epoch == 4
    assert [part.name in problem for problem in state.problems] == [True]
    assert f"{part.name}: its content is not what was written" in " ".join(shown(folder).split())


def test_alarms_name_the_trial_and_the_first_epoch(tmp_path):
    def alarmed(table, epoch):
        return table | {"watchdog": ["INERT distill" if epoch > 2 else ""] * len(table["seed"])}

    write_plan(tmp_path, plan_of(TRIALS))
    write_trial(tmp_path, TRIALS[0], change=alarmed)
    text = shown(tmp_path)
    assert f"watchdog: {TRIALS[0].key}: INERT distill in 2 of 2 members, first at epoch 3" in text
    assert "1 alarm " in " ".join(text.split())


def test_a_running_trial_and_the_time_that_is_left(folder):
    lock = TrialLock(folder / "trials" / TRIALS[2].key / "lock")
    try:
        state = Watch(folder).look()
        assert [t.status for t in state.trials] == ["done", "failed", "running", "waiting"]
        assert state.seconds_left == pytest.approx(0.5 * (2 + 4))  # half a second an epoch, one trial at a time
        assert not state.idle
        assert "about 3 s left" in shown(folder)
    finally:
        lock.release()


def test_the_way_on_is_said_when_nobody_runs_it(folder):
    assert f"nothing runs; 2 not finished, 1 failed: gemsweep resume {folder}" in shown(folder, 60).splitlines()


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits(folder, width):
    lines = shown(folder, width).splitlines()
    assert max(len(line) for line in lines if "gemsweep resume" not in line) <= width


def test_the_folder_is_left_as_it_was(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    shown(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_follower_prints_each_change_once_and_ends_with_the_table(folder):
    lock = TrialLock(folder / "lock")
    clock = Clock(lambda: write_trial(folder, TRIALS[3]), lambda: None, lock.release)
    lines = followed(folder, clock).splitlines()
    assert [line.split(" · ")[0] for line in lines[:2]] == ["watched: trials 1/4 done", "watched: trials 2/4 done"]
    assert not lines[2].startswith("watched: trials 2/4 done · 1 failed · epochs 11/16 · about")
    assert any(line.startswith("trial ") for line in lines)
    assert clock.time == 5.0  # two looks at a live sweep, then idle for three seconds


def test_a_follower_of_a_finished_sweep_ends_at_once(tmp_path):
    write_experiment(tmp_path, TRIALS)
    clock = Clock()
    assert "trials 4/4 done" in followed(tmp_path, clock)
    assert clock.time == 0.0
    assert Watch(tmp_path).look().ended


def test_a_follower_in_a_terminal_leaves_one_table(folder):
    text, clock = io.StringIO(), Clock()
    console = Console(width=100, file=text, force_terminal=True)
    follow(folder, console, idle=3.0, sleep=clock.sleep, now=clock.now)
    assert "trials 1/4 done" in text.getvalue()
    assert text.getvalue().endswith(f"gemsweep resume {folder}\n")


def test_an_interrupted_follower_prints_what_it_knows(folder):
    def interrupt():
        raise KeyboardInterrupt

    lock = TrialLock(folder / "lock")
    try:
        text = followed(folder, Clock(interrupt))
    finally:
        lock.release()
    assert text.count("trials 1/4 done") == 2


def test_a_folder_that_holds_no_experiment(tmp_path):
    with pytest.raises(RecordError, match=r"plan\.json: not found; give the experiment folder"):
        show(tmp_path, Console(file=io.StringIO()))


def test_nothing_recorded_yet(tmp_path):
    write_plan(tmp_path, plan_of(TRIALS))
    state = Watch(tmp_path).look()
    assert state.sizes == ()
    assert np.isnan(state.trials[0].best)
    assert "no gem has been measured yet" in shown(tmp_path)


def test_many_trials_are_cut_and_counted(folder):
    state = Watch(folder).look()
    many = replace(state, trials=tuple(replace(state.trials[0], trial=f"t{n}", launch=n) for n in range(40)))
    from analysis.progress_view import view

    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(view(many))
    assert "16 more trials" in console.export_text()
