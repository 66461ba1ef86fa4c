"""What is shown while a sweep runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sweep.progress import LINE_SECONDS, Progress, Tally, clock


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(tally: Tally, clock: Clock, *, terminal: bool = False, quiet: bool = False, outcomes: dict | None = None):
    console = Console(record=True, width=160, force_terminal=terminal, quiet=False, file=io.StringIO())
    outcome = lambda key: (outcomes or {}).get(key, ("done", ""))
    return Progress(tally, console, quiet, outcome=outcome, now=clock), console


def test_epochs_of_earlier_launches_count_but_do_not_speed_up_the_estimate():
    tally = Tally(trials=2, epochs=20, epochs_before=6)
    tally.result("a", 7, 0.5)  # resumed after epoch 6
    tally.result("a", 8, 0.25)
    tally.result("b", 0, 0.1)
    assert tally.epochs_now == 2
    assert tally.remaining_seconds(10.0) == pytest.approx(10.0 / 2 * 12)
    assert tally.line(30.0, 10.0) == (
        "trials 0/2 done, 2 running · epochs 8/20 · leading now: validation IQM +0.250 (a) · "
        "0:30 elapsed, about 1:00 left"
    )


def test_there_is_no_estimate_before_the_first_epoch():
    tally = Tally(trials=1, epochs=4)
    tally.result("a", 0, -3.0)
    assert tally.remaining_seconds(5.0) is None
    assert "left" not in tally.line(5.0, 5.0)


def test_a_repeated_epoch_after_a_crash_is_not_counted_twice():
    tally = Tally(trials=1, epochs=10)
    for epoch in (0, 1, 2, 3, 2, 3):
        tally.result("a", epoch, 0.0)
    assert tally.epochs_now == 3


def test_a_log_file_gets_a_line_now_and_then_and_one_for_every_end():
    now = Clock()
    progress, console = shown(Tally(trials=2, epochs=8), now, outcomes={"b": ("failed", "ValueError: x")})
    with progress:
        for epoch in range(4):
            now.now += LINE_SECONDS / 3
            progress.result("a", epoch, 0.1)
        progress.ended("a")
        progress.ended("b")
    lines = console.export_text().splitlines()
    assert [line.split(" · ")[0] for line in lines] == [
        "trials 0/2 done, 1 running",
        "trials 1/2 done, 0 running",
        "b: failed: ValueError: x",
        "trials 1/2 done, 0 running",
    ]
    assert progress.tally.failed == {"b": "ValueError: x"}


def test_a_stopped_trial_counts_as_neither_done_nor_failed():
    progress, _ = shown(Tally(trials=1, epochs=4), Clock(), outcomes={"a": ("waiting", "")})
    progress.started("a")
    progress.ended("a")
    assert (progress.tally.done, progress.tally.failed, progress.tally.running) == (0, {}, set())


def test_quiet_says_nothing():
    progress, console = shown(Tally(trials=1, epochs=4), Clock(), quiet=True)
    with progress:
        progress.result("a", 1, 0.1)
        progress.failed("a", "gone")
        progress.stopping()
    assert console.export_text() == ""


def test_a_terminal_gets_one_block_that_names_the_running_trials():
    progress, console = shown(Tally(trials=2, epochs=8), Clock(), terminal=True)
    progress.started("a")
    progress.result("a", 3, 0.125)
    console.print(progress._block())
    text = console.export_text()
    assert "a  epoch 3  IQM +0.125" in text
    assert "trials 0/2 done, 1 running" in text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")])
def test_times_read_like_a_clock(seconds, text):
    assert clock(seconds) == text
