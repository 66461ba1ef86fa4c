"""How trials are cut into packs, and in which order a process runs them, changes no bit of any run."""

from __future__ import annotations

import pandas as pd
import pytest

from sweep.plan import make_plan, planned
from sweep.toml_file import read_config
from trainer.config import Machine
from trainer.loop import run_trial
from trainer.reporter import MemoryReporter

TINY = [
    "data.symbols=['IBM']",
    "trainer.epochs=2",
    "trainer.updates_per_epoch=4",
    "trainer.score_epochs=1",
    "trainer.batch_size=16",
    "trainer.replay_capacity=512",
    "trainer.network={trunk=[16, 16], head=8, atoms=11}",
    "sweep.trials=2",
    "sweep.seeds=2",
]
PLACE = ["trial", "member"]  # where a run stood, not what it did


def trials(*overrides: str):
    return list(planned(make_plan(read_config(None, [*TINY, *overrides], {}), Machine()).data).values())


def record(spec) -> pd.DataFrame:
    reporter = MemoryReporter()
    run_trial(spec, reporter)
    frame = reporter.frame()
    return frame.drop(columns=[c for c in frame.columns if c.startswith("clock/")])


def by_run(frames: list[pd.DataFrame]) -> pd.DataFrame:
    rows = pd.concat(frames, ignore_index=True).drop(columns=PLACE)
    return rows.sort_values(["config", "arm", "seed", "fold", "epoch"], ignore_index=True)


@pytest.fixture(scope="module")
def packed():
    return [record(spec) for spec in trials()]


def test_one_run_a_trial_gives_the_bits_of_the_packed_runs(packed):
    single = [record(spec) for spec in trials('sweep.pack="none"')]
    assert all(len(frame) == 3 for frame in single)
    pd.testing.assert_frame_equal(by_run(single), by_run(packed), check_exact=True)


def test_the_order_of_trials_in_one_process_changes_nothing(packed):
    backwards = [record(spec) for spec in reversed(trials())]
    for before, after in zip(packed, reversed(backwards), strict=True):
        pd.testing.assert_frame_equal(before, after, check_exact=True)


def test_runs_of_different_seeds_differ_and_the_comparison_sees_it(packed):
    rows = by_run(packed)
    last = rows[(rows["epoch"] == 2) & (rows["arm"] == "base")]
    assert last["purity/params_sha"].nunique() == len(last)
