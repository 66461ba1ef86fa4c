"""Trials under a real Ray: faults stay with their trial, nothing recorded is computed twice, workers are set up right.

The bodies are fake and quick; one Ray serves the whole module.
"""

from __future__ import annotations

from collections import Counter

import fake_body
import pytest
from fake_body import EPOCHS, FakeBody, configuration, ledger_rows
from rich.console import Console

from sweep.errors import ConfigError, ResumeError, SweepError
from sweep.experiment import held
from sweep.resources import Share
from sweep.run import resume, run
from trainer.config import Machine
from trainer.record import read_epochs, read_failed, read_log, read_plan, trial_status

FAULTS = {1: "error", 2: "nan", 3: "kill once", 4: "kill"}


@pytest.fixture(scope="module", autouse=True)
def ray_up():
    import ray

    from sweep.launch import environment, start_ray

    ray.cloudpickle.register_pickle_by_value(fake_body)  # workers cannot import from the folder of the tests
    share = Share(Machine(), 0.0, 2)
    with environment(share):
        start_ray(share)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A sweep of six trials of which four go wrong, and what was printed."""
    storage = tmp_path_factory.mktemp("storage")
    body = FakeBody(storage / "ledger", FAULTS)
    console = Console(record=True, width=200, force_terminal=False)
    outcome = run(configuration(storage, "sweep.trials=6"), console, body=body)
    keys = [trial["key"] for trial in read_plan(outcome.folder)["trials"]]
    return outcome, keys, body, console.export_text()


def test_faults_stay_with_their_trial(sweep):
    outcome, keys, _, _ = sweep
    assert outcome.exit_code == 1
    assert [trial_status(outcome.folder, key) for key in keys] == [
        "done", "failed", "failed", "done", "failed", "done",
    ]  # fmt: skip
    assert set(outcome.failed) == set(outcome.left) == {keys[1], keys[2], keys[4]}


def test_the_reason_of_a_failure_is_recorded_and_printed(sweep):
    outcome, keys, _, printed = sweep
    reasons = {launch: read_failed(outcome.folder, keys[launch]) for launch in (1, 2, 4)}
    assert reasons[1]["error"] == "ValueError: broken on purpose"
    assert "objective not finite" in reasons[2]["error"]
    assert reasons[4]["error"] == "its process died (killed, or out of memory)"
    assert {reason["cause"] for reason in reasons.values()} == {"pack"}
    assert any("in _break" in line for line in read_log(outcome.folder, keys[1]))
    for launch, reason in reasons.items():
        assert f"{keys[launch]}: failed: {reason['error']}" in printed
    assert f"{keys[3]}: its process died (killed, or out of memory); trying again" in printed
    assert "Traceback" not in printed


def test_what_would_fail_again_is_not_tried_again_and_a_killed_trial_goes_on_from_its_checkpoint(sweep):
    _, keys, body, _ = sweep
    computed = Counter((key, epoch) for key, epoch, *_ in ledger_rows(body.ledger))
    assert [computed[keys[1], epoch] for epoch in range(4)] == [1, 1, 1, 0]
    assert [computed[keys[3], epoch] for epoch in range(EPOCHS + 1)] == [1, 1, 2, 1, 1]
    assert [computed[keys[4], epoch] for epoch in range(EPOCHS + 1)] == [1, 1, 2, 0, 0]
    assert all(computed[key, epoch] == 1 for key in (keys[0], keys[5]) for epoch in range(EPOCHS + 1))


def test_workers_are_reused_run_one_thread_and_see_no_gpu(sweep):
    _, keys, body, _ = sweep
    rows = ledger_rows(body.ledger)
    assert {row[3] for row in rows} == {"1"}
    assert {row[4] for row in rows} == {"''"}
    healthy = {row[2] for row in rows if row[0] in (keys[0], keys[1], keys[2])}
    assert len(healthy) <= 2  # three trials, two at a time


def test_the_folder_is_complete_and_rays_own_files_are_kept_apart(sweep):
    outcome, keys, _, _ = sweep
    names = {path.name for path in outcome.folder.iterdir()}
    assert names == {"plan.json", "config.toml", "timeline.parquet", "trials", "ray", "lock"}
    assert {path.name for path in (outcome.folder / "ray" / "launch-000").iterdir() if path.is_dir()} == set(keys)


def test_the_display_counts_trials_and_names_the_best(sweep):
    *_, printed = sweep
    last = [line for line in printed.splitlines() if line.startswith("trials ")][-1]
    assert "0 running" in last
    assert "/6 done" in last
    assert "leading now: validation IQM" in last


def test_a_resume_runs_what_is_left_from_its_checkpoints_and_nothing_twice(sweep):
    outcome, keys, body, _ = sweep
    before = ledger_rows(body.ledger)
    again = resume(outcome.folder, Console(quiet=True), body=FakeBody(body.ledger))
    assert (again.exit_code, again.failed, again.left) == (0, {}, [])
    new = Counter((key, epoch) for key, epoch, *_ in ledger_rows(body.ledger)[len(before) :])
    redone = {(keys[1], 2), (keys[2], 2), (keys[4], 2)}
    assert set(new) == redone | {(keys[n], e) for n in (1, 2, 4) for e in (3, 4)}
    assert set(new.values()) == {1}
    for key in keys:
        frame, problems = read_epochs(outcome.folder, key)
        assert problems == []
        assert sorted(set(frame["epoch"])) == list(range(EPOCHS + 1))


def test_a_finished_sweep_has_nothing_to_resume_and_starts_nothing(sweep):
    outcome, _, body, _ = sweep
    resume(outcome.folder, Console(quiet=True), body=FakeBody(body.ledger))
    before = body.ledger.read_text()
    assert resume(outcome.folder, Console(quiet=True), body=FakeBody(body.ledger)).exit_code == 0
    assert body.ledger.read_text() == before


def test_a_name_in_use_is_refused_with_the_ways_out(sweep):
    outcome, _, body, _ = sweep
    with pytest.raises(ConfigError, match=r"gemsweep resume .*fake.*--name"):
        run(configuration(outcome.folder.parent), Console(quiet=True), body=body)


def test_two_sweeps_in_one_folder_are_refused(sweep):
    outcome, _, body, _ = sweep
    with held(outcome.folder), pytest.raises(SweepError, match=r"a sweep is running in it \(process \d+"):
        resume(outcome.folder, Console(quiet=True), body=body)


def test_a_folder_without_a_usable_plan_cannot_be_resumed(tmp_path):
    with pytest.raises(ResumeError, match=r"plan\.json"):
        resume(tmp_path, Console(quiet=True))
    (tmp_path / "plan.json").write_text('{"schema": 1, "trials": [')
    with pytest.raises(ResumeError, match=r"plan\.json") as caught:
        resume(tmp_path, Console(quiet=True))
    assert caught.value.exit_code == 4
