"""A driver that is killed or interrupted in mid-sweep: what was recorded stays, and is never computed again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import fake_body
import pandas as pd
import pytest
from fake_body import EPOCHS, FakeBody, ledger_rows
from rich.console import Console

from sweep.experiment import open_plan
from sweep.run import resume
from trainer.record import TrialStore, read_epochs, trial_status
from trainer.reporter import StoreReporter

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0  # seconds; a busy machine starts Ray slowly


def start_driver(storage: Path, seconds: float) -> subprocess.Popen[str]:
    """A sweep of four trials in a process group of its own, which is what Ctrl-C reaches."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "sweep")])
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests/sweep/fake_body.py"), str(storage), str(seconds)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert driver.poll() is None, driver.stdout.read()
        assert time.monotonic() < deadline, "the sweep did not get that far"
        time.sleep(0.05)


def computed(ledger: Path) -> int:
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def compare_with_uninterrupted(folder: Path, scratch: Path) -> None:
    """Every stored number but clocks equals that of the same trials run one after another without Ray."""
    for key, spec in open_plan(folder).items():
        with TrialStore(scratch, spec) as store:
            FakeBody(scratch / "ledger")(spec, StoreReporter(store))
        expected, _ = read_epochs(scratch, key)
        found, problems = read_epochs(folder, key)
        assert problems == []
        pd.testing.assert_frame_equal(
            found.drop(columns="clock/seconds"), expected.drop(columns="clock/seconds"), check_exact=True
        )


def resume_in_process(folder: Path, ledger: Path):
    import ray

    ray.cloudpickle.register_pickle_by_value(fake_body)
    return resume(folder, Console(quiet=True), body=FakeBody(ledger))


def test_after_kill_9_of_the_driver_a_resume_gives_the_uninterrupted_result(tmp_path):
    ledger, folder = tmp_path / "ledger", tmp_path / "fake"
    driver = start_driver(tmp_path, seconds=0.4)
    wait_for(lambda: computed(ledger) >= EPOCHS, driver)
    driver.kill()
    driver.wait()
    outcome = resume_in_process(folder, ledger)
    assert (outcome.exit_code, outcome.left) == (0, [])
    times = Counter((key, epoch) for key, epoch, *_ in ledger_rows(ledger))
    assert len(times) == 4 * (EPOCHS + 1)
    repeated = [run for run, count in times.items() if count > 1]
    assert len({key for key, _ in repeated}) == len(repeated) <= 2  # at most the epoch in flight of a running trial
    compare_with_uninterrupted(folder, tmp_path / "scratch")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM), (os.killpg, signal.SIGTERM)],
    ids=["a terminal", "kill", "timeout, systemd and batch schedulers"],
)
def test_an_interrupt_stops_gracefully_and_can_be_resumed(tmp_path, send, number):
    ledger, folder = tmp_path / "ledger", tmp_path / "fake"
    driver = start_driver(tmp_path, seconds=1.0)
    wait_for(lambda: computed(ledger) >= EPOCHS, driver)
    send(driver.pid, number)
    output, _ = driver.communicate(timeout=45)  # Ray gives up on a server that is gone after 60
    assert driver.returncode == 3, output
    assert "stopping; the epochs recorded so far are kept" in output
    assert "Traceback" not in output
    assert "waiting" in {trial_status(folder, key) for key in open_plan(folder)}
    assert resume_in_process(folder, ledger).exit_code == 0
    compare_with_uninterrupted(folder, tmp_path / "scratch")
