"""Reporters: what a trial body may rely on."""

from __future__ import annotations

import numpy as np
import pytest
from fake_trial import EPOCHS, fake_spec, fake_trial

from trainer import record
from trainer.reporter import MemoryReporter, Reporter, StoreReporter

SPEC = fake_spec()


def test_memory_and_store_keep_the_same_records(tmp_path):
    memory: Reporter = MemoryReporter()
    fake_trial(SPEC, memory)
    with record.TrialStore(tmp_path, SPEC) as store:
        fake_trial(SPEC, StoreReporter(store))
    stored, problems = record.read_epochs(tmp_path, SPEC.key)
    kept = memory.frame()
    assert problems == []
    assert (stored.dtypes == kept.dtypes).all()
    drop = ["clock/seconds"]
    assert stored.drop(columns=drop).map(repr).equals(kept.drop(columns=drop).map(repr))
    assert memory.summary == record.read_done(tmp_path, SPEC.key)["summary"]


def test_a_memory_reporter_keeps_copies():
    memory = MemoryReporter()
    fake_trial(SPEC, memory)  # the fake trains in place
    assert len(memory.records) == EPOCHS + 1
    assert not np.array_equal(memory.records[1].columns["loss/c51"], memory.records[2].columns["loss/c51"])


@pytest.mark.parametrize("epoch", range(EPOCHS))
def test_a_trial_continued_from_a_checkpoint_in_memory_ends_alike(epoch):
    import torch

    whole, first = MemoryReporter(), MemoryReporter(stop_after=epoch)
    fake_trial(SPEC, whole)
    fake_trial(SPEC, first)
    assert first.summary is None
    assert first.checkpoint.epoch == epoch
    start = record.Checkpoint(epoch, {"walk": torch.from_numpy(first.checkpoint.tensors["walk"])})
    rest = MemoryReporter(start)
    fake_trial(SPEC, rest)
    assert [kept.epoch for kept in rest.records] == list(range(epoch + 1, EPOCHS + 1))
    assert np.array_equal(rest.checkpoint.tensors["walk"], whole.checkpoint.tensors["walk"])


def test_a_record_of_unequal_columns_fails_before_it_is_written(tmp_path):
    def broken(spec, reporter):
        class Cut:
            def resume(self):
                return reporter.resume()

            def epoch(self, record, state):
                record.columns["seed"] = record.columns["seed"][:1]
                return reporter.epoch(record, state)

        fake_trial(spec, Cut())

    with record.TrialStore(tmp_path, SPEC) as store, pytest.raises(record.RecordError, match=r"one entry.*seed"):
        broken(SPEC, StoreReporter(store))
    assert len(record.read_epochs(tmp_path, SPEC.key)[0]) == 0
