"""Frames for `analysis.judge`, as small as a hand can make them: configurations in launch order, c0, c1, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t

from analysis.boundaries import nominal_levels
from analysis.units import EffectUnits, SignalUnits

SCHEDULE = (5, 8, 12, 18, 27, 40, 60, 90, 135)
REAL = 0.2  # a size well above the limit of 1 %


def signal_rows(
    sizes: ArrayLike, *, seeds: int = 1, epochs: int = 2, columns: Mapping[str, ArrayLike] | None = None, gem: str = "g"
) -> pd.DataFrame:
    """Rows of stage 1. `sizes` and each of `columns` (a feature, `off/<feature>`, ...) are [configs] or
    [configs, epochs]; every seed has the same."""
    table = np.asarray(sizes, dtype=float)
    count, epochs = len(table), table.shape[1] if table.ndim == 2 else epochs
    index = pd.MultiIndex.from_product(
        [range(count), range(seeds), range(1, epochs + 1)], names=["launch", "seed", "epoch"]
    )
    rows = index.to_frame(index=False)
    rows = rows.assign(gem=gem, config=_named(rows["launch"]), trial=_named(rows["launch"], "-b0"), value=0.5)
    for name, values in {"size": table, **(columns or {})}.items():
        wide = np.broadcast_to(np.asarray(values, dtype=float).reshape(count, -1), (count, epochs))
        rows[name] = np.repeat(wide[:, None, :], seeds, axis=1).ravel()
    return rows


def pair_rows(
    differences: ArrayLike,
    *,
    control: ArrayLike = 0.5,
    failed_control: ArrayLike = False,
    failed_treatment: ArrayLike = False,
    folds: Mapping[int, ArrayLike] | None = None,
    gem: str = "g",
    **columns: object,
) -> pd.DataFrame:
    """Rows of stage 2. `differences` (wired - probed) is [configs] or [configs, seeds], the rest broadcasts to it;
    `folds`: the difference of each fold alone."""
    table = np.asarray(differences, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    index = pd.MultiIndex.from_product([range(len(table)), range(table.shape[1])], names=["launch", "seed"])
    rows = index.to_frame(index=False)
    rows = rows.assign(gem=gem, config=_named(rows["launch"]), trial=_named(rows["launch"], "-b0"), cause="")
    rows["control"] = _filled(control, table)
    rows["treatment"] = rows["control"] + table.ravel()
    rows["failed_control"] = _filled(failed_control, table).astype(bool)
    rows["failed_treatment"] = _filled(failed_treatment, table).astype(bool)
    for fold, values in (folds or {}).items():
        rows[f"difference/fold{fold}"] = _filled(values, table)
    return rows.assign(**columns)


def no_pairs() -> pd.DataFrame:
    """The frame of an experiment without wired arms."""
    return pair_rows(np.empty((0, 1)))


def signal_units(count: int, size: float = REAL) -> SignalUnits:
    """A signal that is there, in every configuration alike."""
    return SignalUnits(np.full(count, np.log10(size)))


def effect_units(difference: ArrayLike, *, pairs: int = 1, **arrays: ArrayLike) -> EffectUnits:
    """Units of stage 2 without failures and of unknown steadiness, unless `arrays` say otherwise."""
    values = np.asarray(difference, dtype=float)
    filled = {"steadiness": np.nan, "collapse": 0.0, "gains": 0.0} | arrays
    full = {name: np.broadcast_to(np.asarray(given, dtype=float), values.shape) for name, given in filled.items()}
    return EffectUnits(difference=values, pairs=np.full(values.shape, float(pairs)), **full)


def interval(values: Sequence[float] | np.ndarray, claims: int = 1, alpha: float = 0.05) -> tuple[float, float]:
    """The repeated interval at the look that `values` reach, computed here from its definition."""
    data, n = np.asarray(values, dtype=float), len(values)
    level = nominal_levels(SCHEDULE, alpha / claims)[SCHEDULE.index(n)]
    half = t.isf(level, n - 1) * data.std(ddof=1) / np.sqrt(n)
    return float(data.mean() - half), float(data.mean() + half)


def two_decimals(low: float, high: float) -> str:
    """An interval as reasons print it."""
    return f"[{low:+.2f}, {high:+.2f}]"


def alternating(count: int, mean: float, swing: float) -> np.ndarray:
    """mean + swing, mean - swing, ...: a spread that is known at every look."""
    return mean + swing * np.resize([1.0, -1.0], count)


def _named(launch: pd.Series, ending: str = "") -> pd.Series:
    return "c" + launch.astype(str) + ending


def _filled(values: ArrayLike, table: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim == 1 and len(array) == len(table):
        array = array[:, None]
    return np.broadcast_to(array, table.shape).ravel()
