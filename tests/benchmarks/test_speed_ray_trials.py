"""Ray trials beside a pack: what is counted, and a run on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray_trials
from ray_windows import CHUNK, Case, Start, window_rates, work_until

SCRIPT = Path(ray_trials.__file__)


def test_only_what_falls_into_a_window_is_counted() -> None:
    """A step a second until 12, then two; windows [10, 14], [14, 18]; a chunk that spans an edge is shared out."""
    times, done = [5.0, 12.0, 18.0, 20.0], [0, 7, 19, 23]
    assert window_rates(times, done, begin=10.0, windows=2, seconds=4.0) == pytest.approx([1.5, 2.0])
    with pytest.raises(RuntimeError, match="started after"):
        window_rates(times, done, begin=4.0, windows=1, seconds=4.0)
    assert window_rates(times, done, begin=10.0, windows=0, seconds=4.0) == []


def test_a_trial_works_past_the_end_of_the_last_window() -> None:
    ticks = iter(range(100))
    times, done = work_until(3.0, lambda: None, lambda: None, clock=lambda: float(next(ticks)))
    assert times == [0.0, 1.0, 2.0, 3.0]
    assert done == [0, CHUNK, 2 * CHUNK, 3 * CHUNK]


def test_the_start_is_named_when_the_last_trial_is_ready() -> None:
    start = Start(2)
    start.ready()
    assert start.time() is None
    start.ready()
    assert start.time() is not None


def test_rates_add_up_over_trials_window_by_window() -> None:
    case = Case("separate-eager", 2, 1, False, 0.5)
    reports = [{"rates": [1.0, 2.0, 3.0], "ready_seconds": 4.0}, {"rates": [10.0, 20.0, 30.0], "ready_seconds": 5.0}]
    row = ray_trials.row_of(case, reports)
    assert row["updates_per_second"] == {"median": 22.0, "min": 11.0, "max": 33.0, "values": [11.0, 22.0, 33.0]}
    assert row["ready_seconds"] == 5.0
    with pytest.raises(SystemExit, match="1 of 2"):
        ray_trials.row_of(case, reports[:1])
    pack = ray_trials.row_of(Case("pack-64", 1, 64, True, 1.0), [{"rates": [88.0], "ready_seconds": 1.0}])
    assert list(ray_trials.lines([row, pack]))[2].split()[-1] == "4.00"


def test_cases_of_a_sixteenth_of_a_gpu() -> None:
    found = list(ray_trials.cases(ray_trials.parse([])))
    assert [(c.name, c.trials, c.total, c.share) for c in found] == [
        ("separate-eager", 16, 16, 0.0625), ("separate-captured", 16, 16, 0.0625),
        ("pack-64", 1, 64, 1.0), ("pack-256", 1, 256, 1.0),
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        ray_trials.parse(["--trials", "5", "--share", "0.25"])


@pytest.mark.slow
def test_two_trials_and_a_pack_run_on_the_cpu(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--tiny", "--trials", "2", "--pack", "2"]
    command += ["--windows", "2", "--seconds", "0.5", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    separate, pack = json.loads(out.read_text())["rows"]
    assert (separate["name"], separate["trials"], pack["name"], pack["members"]) == ("separate-eager", 2, "pack-2", 2)
    assert all(len(row["updates_per_second"]["values"]) == 2 for row in (separate, pack))
    assert min(row["updates_per_second"]["min"] for row in (separate, pack)) > 0
