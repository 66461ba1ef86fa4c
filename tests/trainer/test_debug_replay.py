"""A stored trial again: identical, or the first difference by epoch, member, column and ulps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch  # noqa: F401  loaded by every real trial, and so part of the recorded environment
from fake_trial import EPOCHS, fake_spec, fake_trial

from trainer import record
from trainer.debug import check
from trainer.record import checkpoints, files, parts
from trainer.reporter import StoreReporter

SPEC = fake_spec()
KEY = SPEC.key
NUMBERS = (EPOCHS + 1) * 2 * 6 + EPOCHS * 2 * 5  # six numeric columns a member and epoch, five returns after epoch 0


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    experiment = tmp_path_factory.mktemp("stored")
    with record.TrialStore(experiment, SPEC) as store:
        fake_trial(SPEC, StoreReporter(store))
    return experiment


@pytest.fixture
def experiment(stored, tmp_path):
    shutil.copytree(stored, tmp_path / "copy")
    return tmp_path / "copy"


def rewrite(experiment, epoch, change):
    """Store another version of an epoch's part, as `change(columns)` makes it."""
    folder = record.trial_folder(experiment, KEY) / "epochs"
    (path,) = parts.list_parts(folder)[epoch]
    columns = parts.decode_columns(parts.read_table(path, KEY))
    change(columns)
    path.unlink()
    parts.write_part(folder, KEY, epoch, columns)
    done = record.read_done(experiment, KEY)
    sizes = {path.name: path.stat().st_size for paths in parts.list_parts(folder).values() for path in paths}
    files.write_json(folder.parent / "done.json", {**done, "parts": sizes})


def nudge(array, *index):
    """The array with one value moved by one ulp."""
    array = array.copy()
    array[index] = np.nextafter(array[index], array.dtype.type(np.inf))
    return array


def test_a_finished_trial_is_identical(stored):
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    result = check(stored, KEY, body=fake_trial)
    assert result.identical
    assert result.first is None
    assert (result.epochs, result.numbers) == (list(range(EPOCHS + 1)), NUMBERS)
    assert (result.checkpoint_epochs, result.checkpoint_numbers) == ([EPOCHS - 1, EPOCHS], 2 * 2 * 5)
    assert result.lines()[-1] == f"identical: epochs 0..{EPOCHS}, {NUMBERS} numbers, 20 checkpoint values"
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before


def test_fewer_epochs_can_be_asked_for(stored):
    result = check(stored, KEY, epochs=1, body=fake_trial)
    assert result.epochs == [0, 1]
    assert result.lines()[-1].startswith("identical: epochs 0..1, ")


def test_one_ulp_in_a_stored_value_is_found(experiment):
    rewrite(experiment, 2, lambda columns: columns.update({"loss/c51": nudge(columns["loss/c51"], 1)}))
    result = check(experiment, KEY, body=fake_trial)
    first = result.first
    assert not result.identical
    assert (first.epoch, first.name, first.member) == (2, "loss/c51", {"arm": "base", "seed": 1, "fold": 0})
    assert (first.ulps, first.stored) == (1, np.nextafter(first.new, np.float32(np.inf)))
    assert result.epochs == [0, 1, 2]
    assert result.lines()[-2] == (
        f"first difference: epoch 2, arm base, seed 1, fold 0, column loss/c51: "
        f"{first.stored} stored, {first.new} now (1 ulp)"
    )


def test_one_ulp_in_a_list_is_found_with_its_index(experiment):
    def change(columns):
        columns["returns/judge"][1] = nudge(columns["returns/judge"][1], 3)

    rewrite(experiment, 3, change)
    first = check(experiment, KEY, body=fake_trial).first
    assert (first.epoch, first.name, first.index, first.ulps) == (3, "returns/judge", (3,), 1)


@pytest.mark.parametrize("epoch", range(EPOCHS + 1))
def test_one_ulp_in_training_is_found_in_its_epoch(stored, epoch):
    def fault(now, walk):
        if now == epoch:
            walk[1] = nudge(walk[1], 2)

    result = check(stored, KEY, body=lambda spec, reporter: fake_trial(spec, reporter, disturb=fault))
    assert result.first.epoch == epoch
    assert result.first.member["seed"] == 1


def test_all_differences_can_be_collected(stored):
    def fault(now, walk):
        walk[0] += now == 1

    body = lambda spec, reporter: fake_trial(spec, reporter, disturb=fault)
    result = check(stored, KEY, stop_at_first=False, body=body)
    assert result.epochs == list(range(EPOCHS + 1))
    found = {(difference.epoch, difference.name) for difference in result.differences}
    both = {"loss/c51", "returns/judge"}  # the gradient column is NaN for this member
    assert found == {(e, n) for e in range(1, 5) for n in both} | {(EPOCHS - 1, "walk"), (EPOCHS, "walk")}
    assert {difference.member["seed"] for difference in result.differences} == {0}
    assert not any(line.startswith("and") for line in result.lines())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("grad/c51/trunk", np.float32([1, 1]), "column grad/c51/trunk: 1.0 stored, nan now"),
        ("arm", ["base", "off"], "column arm: 'off' stored, 'base' now"),
        ("frozen", np.array([True, False]), "column frozen: True stored, False now"),
        ("seed", np.array([0, 2]), "column seed: 2 stored, 1 now"),
        ("loss/c51", np.float64([0, 0]), "column loss/c51: float64 0.0 stored, float32 .* now"),
        ("returns/judge", [np.zeros(5), np.zeros(4)], r"column returns/judge\[0\]: 0.0 stored"),
        ("loss/gone", np.zeros(2), "column loss/gone: float64 0.0 stored, nothing now"),
    ],
)
def test_every_kind_of_stored_value_is_compared(experiment, name, value, words):
    rewrite(experiment, 2, lambda columns: columns.update({name: value}))
    first = check(experiment, KEY, body=fake_trial).first
    assert first.epoch == 2
    assert first.name == name
    assert re.search(words, str(first)), str(first)


def test_another_number_of_members_is_a_difference(stored):
    def body(spec, reporter):
        fake_trial(fake_spec(seeds=(0, 1, 2)), reporter)

    first = check(stored, KEY, body=body).first
    assert (first.name, first.stored, first.new) == ("rows", 2, 3)


def test_wall_time_and_new_columns_are_not_compared(experiment):
    def forget(columns):
        del columns["frozen"]
        columns["clock/seconds"] = columns["clock/seconds"] + 1

    rewrite(experiment, 1, forget)
    assert check(experiment, KEY, body=fake_trial).identical


def test_one_ulp_in_the_final_checkpoint_is_found(experiment):
    folder = record.trial_folder(experiment, KEY) / "checkpoints"
    checkpoint = record.read_checkpoint(folder / f"{EPOCHS:05d}.safetensors", KEY)
    tensors = {"walk": nudge(checkpoint.tensors["walk"].numpy(), 1, 4)}
    checkpoints.write_checkpoint(folder, KEY, record.Checkpoint(EPOCHS, tensors, checkpoint.meta))
    first = check(experiment, KEY, body=fake_trial).first
    assert (first.epoch, first.what, first.name, first.index, first.ulps) == (EPOCHS, "tensor", "walk", (1, 4), 1)
    assert first.member["seed"] == 1


@pytest.mark.parametrize("cause", [None, "member", "stopped"])
def test_what_an_unfinished_or_failed_trial_recorded_is_compared(tmp_path, cause):
    class Cut(StoreReporter):
        def epoch(self, record, state):
            return super().epoch(record, state) or record.epoch == 2

    with record.TrialStore(tmp_path, SPEC) as store:
        fake_trial(SPEC, Cut(store))
        if cause:
            store.fail(cause, "it happened")
    result = check(tmp_path, KEY, body=fake_trial)
    assert result.identical
    assert result.epochs == [0, 1, 2]
    state = f"failed ({cause})" if cause else "unfinished (waiting)"
    assert result.lines()[-2] == f"the trial is {state}: compared is what it recorded, of epochs 0..{EPOCHS}"


def test_a_resumed_trial_is_identical(tmp_path):
    class Cut(StoreReporter):
        def epoch(self, record, state):
            return super().epoch(record, state) or record.epoch == 1

    for reporter in (Cut, StoreReporter):
        with record.TrialStore(tmp_path, SPEC) as store:
            fake_trial(SPEC, reporter(store))
    result = check(tmp_path, KEY, body=fake_trial)
    assert result.identical
    assert result.numbers == NUMBERS


def test_a_damaged_part_is_named_and_the_rest_is_compared(experiment):
    (path,) = parts.list_parts(record.trial_folder(experiment, KEY) / "epochs")[2]
    path.write_bytes(path.read_bytes()[:-1])
    result = check(experiment, KEY, body=fake_trial)
    assert result.identical
    assert result.epochs == [0, 1, 3, 4]
    lines = result.lines()
    assert any(line.startswith("not compared: ") and path.name in line for line in lines)
    assert "epochs 0..1, 3..4," in lines[-1]


def test_a_trial_that_ends_early_now_is_different(stored):
    def body(spec, reporter):
        fake_trial(fake_spec(epochs=2), reporter)

    result = check(stored, KEY, body=body)
    assert not result.identical
    assert str(result.first) == "epoch 3, the whole record: one stored, none now"


def test_nothing_stored_is_an_error(tmp_path):
    record.write_plan(tmp_path, {"schema": 1, "trials": [SPEC.model_dump(mode="json")]})
    with pytest.raises(record.RecordError, match="no epoch is recorded"):
        check(tmp_path, KEY, body=fake_trial)
    with pytest.raises(record.RecordError, match=f"no trial 'other'; the plan's trials are {KEY}"):
        check(tmp_path, "other", body=fake_trial)


def test_a_damaged_trial_json_falls_back_to_the_plan(experiment):
    record.write_plan(experiment, {"schema": 1, "trials": [SPEC.model_dump(mode="json")]})
    (record.trial_folder(experiment, KEY) / "trial.json").write_text("{")
    result = check(experiment, KEY, body=fake_trial)
    assert result.identical
    assert any("trial.json" in line for line in result.problems)


def test_what_changed_around_the_trial_is_listed_first(experiment):
    record.write_plan(experiment, {"schema": 1, "data": {"sha256": "0" * 64}})
    path = record.trial_folder(experiment, KEY) / "trial.json"
    trial = record.read_json(path)
    trial["environment"]["versions"]["torch"] = "1.0"
    trial["environment"].update(threads=7, cpu="an older processor", commit="abc")
    files.write_json(path, trial)
    lines = check(experiment, KEY, body=fake_trial).lines()
    listed = [line.removeprefix("differs from the stored run: ") for line in lines[:-1]]
    assert listed[0].startswith("data us-daily: sha256 0000000000000000 then, ")
    assert [line.split(":")[0] for line in listed[1:]] == ["commit", "cpu", "threads", "versions.torch"]
    assert listed[-1].startswith("versions.torch: 1.0 then, 2.")
    assert lines[-1].startswith("identical")


@pytest.mark.parametrize("present", ["another text", None])
def test_a_gem_file_that_changed_is_named_before_any_number(experiment, tmp_path, present):
    path = tmp_path / "mine.py"
    gem = {"name": "mine", "reference": f"{path}:Mine", "sha256": "1" * 64, "may_duplicate": []}
    builtin = {"name": "g10_temporal", "reference": "g10_temporal", "sha256": "", "may_duplicate": []}
    record.write_plan(experiment, {"schema": 1, "gems": [gem, builtin]})
    if present:
        path.write_text(present)
    first = check(experiment, KEY, body=fake_trial).lines()[0]
    now = sha256(present.encode()).hexdigest()[:16] if present else "absent"
    assert first == f"differs from the stored run: gem mine in {path}: sha256 {'1' * 16} then, {now} now"


def test_the_same_bars_are_not_a_difference(experiment):
    from trainer.data import load_bars

    sha256 = load_bars("us-daily", symbols=SPEC.data.symbols).sha256
    record.write_plan(experiment, {"schema": 1, "data": {"sha256": sha256}})
    assert check(experiment, KEY, body=fake_trial).lines()[0].startswith("identical")


REAL = """
import sys
from trainer.config import BUILTIN_GEMS, ArmConfig, DataConfig, GemConfig
from trainer.config import Member, NetworkConfig, TrainerConfig, TrialSpec
from trainer.debug import check
from trainer.loop import run_trial
from trainer.record import TrialStore
from trainer.reporter import StoreReporter

class Cut(StoreReporter):
    def epoch(self, record, state):
        return super().epoch(record, state) or record.epoch == 1

trainer = TrainerConfig(epochs=2, updates_per_epoch=5, score_epochs=1, batch_size=16,
                        network=NetworkConfig(trunk=(16, 16), head=8, atoms=11))
arm = ArmConfig(name="base", gems={name: GemConfig() for name in BUILTIN_GEMS})
members = tuple(Member(arm="base", seed=seed, fold=0) for seed in (0, 1))
spec = TrialSpec(key="real-b0", config_key="real", data=DataConfig(symbols=("AAPL",)), trainer=trainer, arms=(arm,),
                 members=members)
for reporter in (Cut, StoreReporter):
    with TrialStore(sys.argv[1], spec) as store:
        run_trial(spec, reporter(store))
result = check(sys.argv[1], spec.key)
print(*result.lines(), f"ray loaded: {'ray' in sys.modules}", sep="\\n")
"""


def test_a_real_trial_cut_and_resumed_is_identical_without_ray(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", REAL, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert re.fullmatch(r"identical: epochs 0\.\.2, \d+ numbers, \d+ checkpoint values", lines[0])
    assert lines[1:] == ["ray loaded: False"]
