"""The real thing in small: `gemsweep run` on real bars, its report, its debug replay, all through the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from sweep.experiment import open_plan
from trainer.record import read_epochs, trial_status

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "data.symbols=['IBM']",
    "trainer.epochs=3",
    "trainer.updates_per_epoch=8",
    "trainer.score_epochs=2",
    "trainer.network={trunk=[16, 16], head=8, atoms=11}",
    "sweep.trials=2",
    "sweep.seeds=1",
    "sweep.concurrent=2",
]
NO_RAY = """
import sys
from sweep.cli import main
try:
    main()
finally:
    print("loaded:", *sorted({"ray", "torch"} & set(sys.modules)), file=sys.stderr)
"""


def command(*arguments: str, code: list[str] | None = None) -> list[str]:
    return [sys.executable, *(code or ["-m", "sweep.cli"]), *arguments]


def run_arguments(storage: Path, *settings: str) -> list[str]:
    sets = [part for text in (*TINY, *settings) for part in ("--set", text)]
    return ["run", "--storage", str(storage), "--name", "tiny", *sets]


def gemsweep(*arguments: str, code: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, code=code), capture_output=True, text=True, cwd=ROOT, timeout=280, check=False
    )


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Every record of an experiment without clocks."""
    found = {}
    for key in open_plan(folder):
        frame, problems = read_epochs(folder, key)
        assert problems == []
        found[key] = frame.drop(columns=[name for name in frame.columns if name.startswith("clock/")])
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    storage = tmp_path_factory.mktemp("experiments")
    return storage / "tiny", gemsweep(*run_arguments(storage))


def test_a_run_ends_with_the_table_the_label_and_the_report(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "smoke, not evidence" in done.stdout
    for gem in ("g6_branch_indep", "g10_temporal", "g12_predictive"):
        assert gem in done.stdout
    assert done.stdout.splitlines()[-1] == f"report: {folder / 'report.html'}"
    assert (folder / "report.html").stat().st_size > 10_000
    assert {trial_status(folder, key) for key in open_plan(folder)} == {"done"}


def test_the_report_is_read_without_ray_and_torch(finished):
    folder, run = finished
    done = gemsweep("report", str(folder), code=["-c", NO_RAY])
    assert done.stderr.split() == ["loaded:"]
    table = done.stdout.splitlines()
    assert table == run.stdout.splitlines()[-len(table) :]


def test_a_trial_replays_bit_for_bit_without_ray(finished):
    folder, _ = finished
    key = next(iter(open_plan(folder)))
    done = gemsweep("debug", str(folder), "--trial", key, code=["-c", NO_RAY])
    assert done.returncode == 0, done.stdout
    assert done.stderr.split() == ["loaded:", "torch"]
    changed = gemsweep("debug", str(folder), "--trial", "0000000000-b0")
    assert changed.returncode == 2
    assert "0000000000-b0" in changed.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sweep_killed_and_resumed_has_the_tables_of_an_uninterrupted_one(tmp_path):
    settings = ["trainer.epochs=8", "trainer.updates_per_epoch=20", "sweep.trials=3", "sweep.concurrent=2"]
    whole = gemsweep(*run_arguments(tmp_path / "whole", *settings))
    assert whole.returncode == 0, whole.stderr
    folder = tmp_path / "cut" / "tiny"
    driver = subprocess.Popen(
        command(*run_arguments(tmp_path / "cut", *settings)),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 240
    while len(list(folder.glob("trials/*/epochs/*.parquet"))) < 8:
        assert driver.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    resumed = gemsweep("resume", str(folder))
    assert resumed.returncode == 0, resumed.stderr
    cut, expected = tables(folder), tables(tmp_path / "whole" / "tiny")
    assert cut.keys() == expected.keys()
    for key, frame in expected.items():
        pd.testing.assert_frame_equal(cut[key], frame, check_exact=True)
    assert verdict_lines(resumed.stdout) == verdict_lines(whole.stdout)


def verdict_lines(printed: str) -> list[str]:
    """The printed tables without what names the place or the time."""
    start = printed.index("provisional stage-1 verdicts")
    lines = printed[start:].splitlines()
    return [line for line in lines if not any(word in line for word in ("gemsweep debug", "time of all", "report:"))]
