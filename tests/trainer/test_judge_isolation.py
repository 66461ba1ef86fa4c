"""Nothing from validation or judge bars reaches a parameter: they are permuted or replaced, and no bit changes."""

import dataclasses

import numpy as np
import pytest
from tiny_trial import BASE, FOLDS, OFF, WIRED, tiny_spec

from trainer.config import DataConfig
from trainer.data.source import load_table
from trainer.loop import run_trial
from trainer.reporter import MemoryReporter

DATA = DataConfig(
    symbols=("AAPL", "MSFT"), folds=FOLDS.model_copy(update={"purge": 10, "embargo": 5})
)  # the bundled real bars
MEMBERS = ("base", 5), ("off", 6), ("wired", 7)  # arm and seed
CHANGED = ("features", "open", "close", "years")


def trained(fold, table):
    """A short trial with a member of each arm in one fold."""
    seen = MemoryReporter()
    members = [f"{arm} {seed} {fold}" for arm, seed in MEMBERS]
    run_trial(tiny_spec("", members, (BASE, OFF, WIRED), DATA, epochs=2), seen, table)
    return seen


@pytest.fixture(scope="module")
def as_it_is():
    """The trial of each fold on the bundled bars."""
    return [trained(fold, load_table(DATA)) for fold in (0, 1)]


def with_rows(table, rows, change):
    """The table with `change` applied to its columns at `rows`."""
    columns = {name: getattr(table, name).copy() for name in CHANGED}
    for name, column in columns.items():
        column[rows] = change(name, column[rows])
    return dataclasses.replace(table, **columns)


def rows_after_training(table, fold):
    return np.flatnonzero(table.position >= table.folds[fold].spans["train"].stop)


def permute(name, values, seed=3):
    return values[np.random.default_rng(seed).permutation(len(values))]


def garbage(name, values):
    rng = np.random.default_rng(4)
    if name == "features":
        return rng.normal(0.0, 1e3, values.shape).astype(values.dtype)
    return np.exp(rng.normal(0.0, 3.0, values.shape)) * (1e-3 if name == "years" else 1.0)


def tensors_that_differ(first, second):
    a, b = first.checkpoint.tensors, second.checkpoint.tensors
    assert a.keys() == b.keys()
    return [name for name in a if a[name].numpy().tobytes() != b[name].numpy().tobytes()]


def walked_alike(first, second, span):
    """Whether every member's walk over `span` earned the same on both tables."""
    returns = [np.stack(seen.records[-1].columns[f"returns/{span}"]) for seen in (first, second)]
    return np.array_equal(*returns)


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("change", [permute, garbage])
def test_no_bit_of_the_trained_state_depends_on_later_bars(as_it_is, fold, change):
    table = load_table(DATA)
    other = trained(fold, with_rows(table, rows_after_training(table, fold), change))
    assert tensors_that_differ(as_it_is[fold], other) == []
    assert not walked_alike(as_it_is[fold], other, "validation")
    assert not walked_alike(as_it_is[fold], other, "judge")


def test_train_bars_do_change_the_parameters(as_it_is):
    table = load_table(DATA)
    inside = np.arange(rows_after_training(table, 0)[0])
    other = trained(0, with_rows(table, inside, permute))
    assert "online/params" in tensors_that_differ(as_it_is[0], other)
