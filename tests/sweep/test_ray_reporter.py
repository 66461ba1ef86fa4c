"""What Tune is told of an epoch: always the same finite numbers, after the epoch is on disk."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sweep.ray_reporter import NotFinite, RayReporter, metrics
from sweep.trainable import may_pass
from trainer.record import Checkpoint, RecordError
from trainer.reporter import EpochRecord, MemoryReporter


def record(epoch: int = 3, objective: float = 0.5, **columns) -> EpochRecord:
    return EpochRecord(
        epoch,
        {
            "arm": ["base", "base", "base", "off"],
            "status": ["ok", "frozen", "ok", "ok"],
            "eval/validation/sharpe": np.array([1.0, 2.0, 6.0, 100.0]),
            "gem/g6/mode": ["probe", "probe", "probe", "off"],
            "gem/g6/value": np.array([2.0, np.nan, 4.0, np.nan]),
            "gem/g6/size/value": np.full(4, np.nan),
            "gem/g10/mode": ["off"] * 4,
            "gem/g10/value": np.full(4, np.nan),
        }
        | columns,
        objective,
    )


def test_numbers_come_from_the_base_arm_and_from_members_that_measured():
    assert metrics(record()) == {
        "epoch": 3,
        "objective": 0.5,
        "sharpe": 3.0,
        "sharpe_var": 7.0,
        "frozen": 1,
        "members": 4,
        "gems/g6": 3.0,
    }


def test_a_gem_that_no_member_measured_reads_zero_so_that_the_key_is_never_missing():
    assert metrics(record(**{"gem/g6/value": np.full(4, np.nan)}))["gems/g6"] == 0.0


def test_one_run_has_no_variance():
    single = {name: values[:1] for name, values in record().columns.items()}
    assert metrics(EpochRecord(0, single, 1.0))["sharpe_var"] == 0.0


def test_a_trial_of_another_arm_alone_reports_that_arm():
    only_off = {name: values[3:] for name, values in record().columns.items()}
    assert metrics(EpochRecord(0, only_off, 1.0))["sharpe"] == 100.0


@pytest.mark.parametrize("objective", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_fails_in_the_worker_before_the_epoch_is_stored(objective):
    inner, told = MemoryReporter(), []
    reporter = RayReporter(inner, told.append)
    with pytest.raises(NotFinite, match="epoch 3: objective not finite"):
        reporter.epoch(record(objective=objective), lambda: Checkpoint(3, {}, {}))
    assert (inner.records, told) == ([], [])


def test_an_epoch_is_stored_before_it_is_told_and_the_stop_is_passed_on():
    inner = MemoryReporter(stop_after=3)
    seen = []
    reporter = RayReporter(inner, lambda row: seen.append((row["epoch"], len(inner.records))))
    assert reporter.epoch(record(2), lambda: Checkpoint(2, {}, {})) is False
    assert reporter.epoch(record(3), lambda: Checkpoint(3, {}, {})) is True
    assert seen == [(2, 1), (3, 2)]


def test_only_failures_of_the_machine_are_worth_another_try():
    class OutOfMemoryError(RuntimeError):
        """Named as torch names its own."""

    assert all(map(may_pass, [OSError("disk full"), MemoryError(), RecordError("x"), OutOfMemoryError()]))
    assert not any(map(may_pass, [ValueError("x"), NotFinite("x"), KeyError("x"), RuntimeError("x")]))
