"""A trial small enough to run many times in a test: two synthetic symbols, a network of 8 units, batches of 8."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from trainer.bits import unequal
from trainer.config import (
    BUILTIN_GEMS,
    ArmConfig,
    DataConfig,
    FoldConfig,
    GemConfig,
    Machine,
    Member,
    NetworkConfig,
    TrainerConfig,
    TrialSpec,
)
from trainer.data.source import load_table
from trainer.loop import run_trial
from trainer.pack import build_pack
from trainer.reporter import MemoryReporter
from trainer.step import begin_walks, walk

FOLDS = FoldConfig(count=2, holdout=0.1, judge=0.12, validation=0.1, train=0.3, purge=5, embargo=1)
NETWORK = NetworkConfig(trunk=(8, 8), head=8, atoms=11)
TRAINER = TrainerConfig(
    epochs=3,
    updates_per_epoch=4,
    batch_size=8,
    environments=4,
    episode_bars=24,
    replay_capacity=64,
    diagnostics_per_epoch=2,
    score_epochs=1,
    epsilon_decay_updates=10,
    network=NETWORK,
)


TINY_MEMBERS = ("base 0 0", "base 0 1", "wired 0 0", "off 1 1")


def gem_modes(**modes):
    """Settings of the built-in gems, probed unless said otherwise."""
    return {name: GemConfig(mode=modes.get(name, "probe")) for name in BUILTIN_GEMS}


BASE = ArmConfig(name="base", gems=gem_modes())
OFF = ArmConfig(name="off")
WIRED = ArmConfig(name="wired", gems=gem_modes(g10_temporal="wired", g12_predictive="wired", g6_branch_indep="wired"))


def synthetic_bars(bars=500, seed=7):
    """Two symbols of daily bars in one frame; the second starts later, pauses for 30 days, and has a volume of 0."""
    rng, frames = np.random.default_rng(seed), []
    days = pd.bdate_range("2015-01-01", periods=bars, tz="UTC")
    for symbol, kept in (("AA", days), ("BB", days[10:].delete(slice(200, 222)))):
        steps = rng.normal(0.0003, 0.01, (len(kept), 2))
        close = 50.0 * np.exp(np.cumsum(steps.sum(1)))
        opened = np.append(50.0, close[:-1]) * np.exp(steps[:, 0])
        spread = np.exp(np.abs(rng.normal(0, 0.004, len(kept))))
        high, low = np.maximum(opened, close) * spread, np.minimum(opened, close) / spread
        volume = rng.integers(1_000, 9_000, len(kept))
        columns = {"timestamp": kept, "symbol": symbol, "open": opened, "high": high, "low": low, "close": close}
        frames.append(pd.DataFrame(columns | {"volume": volume}))
    frames[1].loc[150, "volume"] = 0
    return pd.concat(frames, ignore_index=True)


def tiny_spec(source, members=("base 0 0",), arms=(BASE, OFF, WIRED), data=None, **changes):
    """A spec for members written as "arm seed fold"; `changes` are fields of the trainer configuration."""
    named = [text.split() for text in members]
    return TrialSpec(
        key="0123456789-b0",
        config_key="0123456789",
        data=data or DataConfig(source=str(source), folds=FOLDS),
        trainer=TRAINER.model_copy(update=changes),
        arms=arms,
        members=tuple(Member(arm=arm, seed=int(seed), fold=int(fold)) for arm, seed, fold in named),
        machine=Machine(threads=1),
    )


def run(spec, **reporter):
    """The reporter of a finished trial."""
    seen = MemoryReporter(**reporter)
    run_trial(spec, seen)
    return seen


def started(spec):
    """A pack with enough bars in its replay for the first update."""
    with torch.no_grad():
        pack = build_pack(spec, load_table(spec.data))
        begin_walks(pack)
        for _ in range(spec.trainer.n_step + 4):
            walk(pack)
    return pack


def rows_differ(first, row, second, other, skip=("clock/", "trial", "config")):
    """Names of columns in which two members' records of an epoch differ in any bit."""
    assert first.columns.keys() == second.columns.keys()
    names = [name for name in first.columns if not name.startswith(skip)]
    return [name for name in names if _differ(first.columns[name][row], second.columns[name][other])]


def _differ(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype != b.dtype or a.shape != b.shape or bool(np.any(unequal(a, b)))
