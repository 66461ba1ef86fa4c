"""A trial's folder through crashes and damage: the resume rule, the lock, the statuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from fake_trial import EPOCHS, fake_spec, fake_trial

from trainer import record
from trainer.record import parts
from trainer.record import store as store_module
from trainer.reporter import StoreReporter

SPEC = fake_spec()
KEY = SPEC.key


class Killed(BaseException):
    """Stands for the end of the process."""


def run(experiment, spec=SPEC):
    with record.TrialStore(experiment, spec) as store:
        fake_trial(spec, StoreReporter(store))


def run_until(experiment, epoch):
    """Run to the end of `epoch` and die."""

    class Mortal(StoreReporter):
        def epoch(self, record, state):
            stop = super().epoch(record, state)
            if record.epoch == epoch:
                raise Killed
            return stop

    with pytest.raises(Killed), record.TrialStore(experiment, SPEC) as store:
        fake_trial(SPEC, Mortal(store))


def frame(experiment):
    table, problems = record.read_epochs(experiment, KEY, columns=lambda name: not name.startswith("clock/"))
    assert problems == []
    return table


def part(experiment, epoch):
    (path,) = parts.list_parts(record.trial_folder(experiment, KEY) / "epochs")[epoch]
    return path


def saved(experiment, epoch):
    return record.trial_folder(experiment, KEY) / "checkpoints" / f"{epoch:05d}.safetensors"


def names(experiment, folder):
    return sorted(path.name for path in (record.trial_folder(experiment, KEY) / folder).iterdir())


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    experiment = tmp_path_factory.mktemp("reference")
    run(experiment)
    return experiment


def same_as_reference(experiment, reference):
    assert record.trial_status(experiment, KEY) == "done"
    assert record.check_trial(experiment, KEY) == []
    assert frame(experiment).map(repr).equals(frame(reference).map(repr))


def test_a_finished_trial_reads_back(reference):
    table = frame(reference)
    assert list(table.epoch) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert table["loss/c51"].dtype == np.float32
    assert len(table["returns/judge"].iloc[0]) == 0
    assert np.isnan(table["grad/c51/trunk"].iloc[0])
    assert np.signbit(table["grad/c51/trunk"].iloc[1])
    assert names(reference, "checkpoints") == ["00003.safetensors", "00004.safetensors"]
    assert record.read_log(reference, KEY) == [f"epoch {epoch}" for epoch in range(EPOCHS + 1)]
    assert record.read_done(reference, KEY)["summary"] == {"epochs": EPOCHS}
    trial = record.read_trial(reference, KEY)
    assert trial["spec"] == SPEC.model_dump(mode="json")
    assert trial["environment"]["versions"]["numpy"] == np.__version__
    assert trial["resumed"] == []
    assert record.trial_keys(reference) == [KEY]


def test_a_finished_trial_is_not_run_again(reference):
    with pytest.raises(record.TrialFinished, match="is finished"):
        run(reference)
    same_as_reference(reference, reference)


@pytest.mark.parametrize("epoch", [0, 2, EPOCHS])
def test_a_crash_after_an_epoch_computes_nothing_twice(tmp_path, reference, epoch):
    run_until(tmp_path, epoch)
    assert record.trial_status(tmp_path, KEY) == "waiting"
    before = {name: part(tmp_path, name).stat().st_ino for name in range(epoch + 1)}
    run(tmp_path)
    assert {name: part(tmp_path, name).stat().st_ino for name in before} == before
    assert record.read_trial(tmp_path, KEY)["resumed"][0]["from_epoch"] == epoch
    same_as_reference(tmp_path, reference)


def test_a_crash_between_checkpoint_and_part_repeats_that_epoch(tmp_path, reference, monkeypatch):
    def dies(folder, key, epoch, columns):
        if epoch == 2:
            raise Killed
        return parts.write_part(folder, key, epoch, columns)

    monkeypatch.setattr(store_module, "write_part", dies)
    with pytest.raises(Killed):
        run(tmp_path)
    assert names(tmp_path, "checkpoints") == ["00001.safetensors", "00002.safetensors"]
    monkeypatch.undo()
    run(tmp_path)
    assert record.read_trial(tmp_path, KEY)["resumed"][0]["from_epoch"] == 1
    same_as_reference(tmp_path, reference)


def test_a_crash_before_the_first_part_starts_fresh(tmp_path, reference, monkeypatch):
    monkeypatch.setattr(store_module, "write_part", lambda *_: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        run(tmp_path)
    monkeypatch.undo()
    run(tmp_path)
    assert record.read_trial(tmp_path, KEY)["resumed"][0]["from_epoch"] == -1
    same_as_reference(tmp_path, reference)


def test_temporary_files_are_ignored_and_removed(tmp_path, reference):
    run_until(tmp_path, 2)
    for folder, name in (("epochs", ".00003-aa.parquet.1-2.tmp"), ("checkpoints", ".3.tmp"), (".", ".done.json.tmp")):
        (record.trial_folder(tmp_path, KEY) / folder / name).write_bytes(b"PAR1")
    assert record.read_epochs(tmp_path, KEY)[1] == []
    run(tmp_path)
    same_as_reference(tmp_path, reference)
    assert not [path for path in tmp_path.rglob("*.tmp")]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, truncate, empty, Path.unlink])
@pytest.mark.parametrize(
    ("target", "resumes_from", "aside"),
    [
        ((part, 3), 2, []),  # the last part: the checkpoint before still serves
        ((part, 1), -1, [0, 2, 3]),  # in the middle: no kept checkpoint is that old
        ((saved, 3), 2, [3]),
        ((saved, 2), 3, []),
    ],
)
def test_damage_costs_what_it_must_and_is_named(tmp_path, reference, damage, target, resumes_from, aside):
    run_until(tmp_path, 3)
    path = target[0](tmp_path, target[1])
    damage(path)
    if target[0] is part:
        table, problems = record.read_epochs(tmp_path, KEY)
        if (damage, target[1]) != (Path.unlink, 3):  # a missing last part of an unfinished trial is no damage
            assert any(path.name in line or str([target[1]]) in line for line in problems)
        assert sorted(set(table.epoch)) == [epoch for epoch in range(4) if epoch != target[1]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(tmp_path)
    named = [str(warning.message) for warning in caught if warning.category is record.DamagedRecordWarning]
    damaged = damage is not Path.unlink and (target[0] is part or target[1] > resumes_from)
    assert path.with_name(path.name + ".damaged").exists() == damaged
    assert any(path.name in line for line in named) == damaged
    assert sorted(int(name[:5]) for name in names(tmp_path, "epochs") if name.endswith(".aside")) == aside
    assert record.read_trial(tmp_path, KEY)["resumed"][0]["from_epoch"] == resumes_from
    same_as_reference(tmp_path, reference)


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_damage_of_a_finished_trial_is_repaired_by_a_resume(tmp_path, reference, damage):
    run(tmp_path)
    damage(part(tmp_path, 4))
    assert len(record.check_trial(tmp_path, KEY)) > 0
    assert record.trial_status(tmp_path, KEY) == ("done" if damage is flip else "waiting")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", record.DamagedRecordWarning)
        run(tmp_path)
    same_as_reference(tmp_path, reference)


@pytest.mark.parametrize("damage", [flip, truncate, empty])
@pytest.mark.parametrize("name", ["trial.json", "done.json"])
def test_damaged_json_is_rewritten(tmp_path, reference, name, damage):
    run(tmp_path)
    damage(record.trial_folder(tmp_path, KEY) / name)
    assert any(name in problem for problem in record.check_trial(tmp_path, KEY))
    assert record.trial_status(tmp_path, KEY) == ("waiting" if name == "done.json" else "done")
    with pytest.warns(record.DamagedRecordWarning) as caught:
        run(tmp_path)
    assert any(name in str(warning.message) for warning in caught)
    assert record.read_trial(tmp_path, KEY)["spec"] == SPEC.model_dump(mode="json")
    same_as_reference(tmp_path, reference)


def test_a_second_part_for_an_epoch_is_named(tmp_path):
    run(tmp_path)
    folder = record.trial_folder(tmp_path, KEY) / "epochs"
    parts.write_part(folder, KEY, 2, {"arm": ["base", "base"], "epoch": np.full(2, 2, np.int32)})
    table, problems = record.read_epochs(tmp_path, KEY)
    assert len(table) == 2 * (EPOCHS + 1)
    assert any("second part for epoch 2" in line for line in problems)


def test_reading_changes_nothing(tmp_path):
    run_until(tmp_path, 3)
    flip(part(tmp_path, 2))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    record.read_epochs(tmp_path, KEY)
    record.check_trial(tmp_path, KEY)
    record.trial_status(tmp_path, KEY)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_of_another_specification_is_refused(tmp_path):
    run_until(tmp_path, 1)
    other = fake_spec(epochs=EPOCHS + 1)
    with pytest.raises(record.RecordError, match="another specification"):
        run(tmp_path, other)


def test_epochs_must_follow_each_other(tmp_path):
    with record.TrialStore(tmp_path, SPEC) as store:
        store.resume()
        with pytest.raises(record.RecordError, match="cannot follow epoch -1"):
            store.write_epoch(1, {"a": [1, 2]}, record.Checkpoint(1, {"w": np.zeros(1)}))


def test_statuses(tmp_path):
    assert record.trial_status(tmp_path, KEY) == "waiting"
    with record.TrialStore(tmp_path, SPEC) as store:
        assert record.trial_status(tmp_path, KEY) == "running"
        store.fail("pack", "out of memory")
    assert record.trial_status(tmp_path, KEY) == "failed"
    assert record.read_failed(tmp_path, KEY)["cause"] == "pack"
    run(tmp_path)
    assert record.trial_status(tmp_path, KEY) == "done"
    assert "# retried after pack failure: out of memory" in record.read_log(tmp_path, KEY)


def test_a_dead_trial_is_marked_from_outside(tmp_path):
    run_until(tmp_path, 2)
    record.mark_failed(tmp_path, SPEC, "pack", "killed by signal 9")
    assert record.trial_status(tmp_path, KEY) == "failed"
    assert record.read_failed(tmp_path, KEY)["epoch"] == 2


RUNNER = """
import sys
sys.path.insert(0, sys.argv[2])
from fake_trial import fake_spec, fake_trial
from trainer.record import TrialStore
from trainer.reporter import StoreReporter
spec = fake_spec(epochs=30)
with TrialStore(sys.argv[1], spec) as store:
    fake_trial(spec, StoreReporter(store))
"""


def test_a_trial_killed_at_work_leaves_only_whole_files_and_goes_on(tmp_path):
    command = [sys.executable, "-c", RUNNER, str(tmp_path), str(Path(__file__).parent)]
    folder = record.trial_folder(tmp_path, KEY) / "epochs"
    with subprocess.Popen(command) as worker:
        while not list(folder.glob("00003-*.parquet")):
            assert worker.poll() is None
            time.sleep(0.001)
        worker.kill()
    assert record.trial_status(tmp_path, KEY) == "waiting"
    assert record.check_trial(tmp_path, KEY) == []
    reached = max(record.stored_epochs(tmp_path, KEY))
    run(tmp_path, fake_spec(epochs=30))
    assert record.read_trial(tmp_path, KEY)["resumed"][0]["from_epoch"] == reached
    assert record.check_trial(tmp_path, KEY) == []
    table, problems = record.read_epochs(tmp_path, KEY)
    assert problems == []
    assert list(table.epoch[::2]) == list(range(31))


HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from fake_trial import fake_spec
from trainer.record import TrialStore
store = TrialStore(sys.argv[1], fake_spec())
print("held", flush=True)
time.sleep(60)
"""


def test_two_writers_are_refused_until_the_first_is_gone(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert record.trial_status(tmp_path, KEY) == "running"
        with pytest.raises(record.TrialLocked, match=f"process {holder.pid} on .* is writing this trial"):
            record.TrialStore(tmp_path, SPEC)
        os.kill(holder.pid, signal.SIGKILL)  # a killed writer leaves no lock behind
        holder.wait()
    assert record.trial_status(tmp_path, KEY) == "waiting"
    record.TrialStore(tmp_path, SPEC).close()


def test_two_writers_in_one_process_are_refused(tmp_path):
    with record.TrialStore(tmp_path, SPEC):
        started = time.monotonic()
        with pytest.raises(record.TrialLocked):
            record.TrialStore(tmp_path, SPEC)
        assert time.monotonic() - started < 5
    record.TrialStore(tmp_path, SPEC).close()


def test_reading_imports_neither_torch_nor_ray(reference):
    code = (
        "import sys; from trainer import record, reporter, provenance;"
        f"record.read_epochs({str(reference)!r}, {KEY!r}); record.check_trial({str(reference)!r}, {KEY!r});"
        "print([name for name in ('torch', 'ray') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
