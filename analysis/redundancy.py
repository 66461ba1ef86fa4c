"""Does a gem move with a signal that is already there? R^2 out of sample, after the common trends are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

Matrix = NDArray[np.float64]
FEWEST_UNITS = 3  # leave one out needs two to fit on


@dataclass(frozen=True)
class Panel:
    """A gem and a feature side by side: gem, signal [members, epochs], NaN where a value is missing; unit [members]:
    the number of the unit that a member belongs to, in launch order."""

    gem: Matrix
    signal: Matrix
    unit: NDArray[np.int64]

    def first(self, units: int) -> Panel:
        """Of the first `units` alone."""
        own = self.unit < units
        return Panel(self.gem[own], self.signal[own], self.unit[own])

    def by_unit(self) -> tuple[Matrix, Matrix]:
        """Means of gem and signal over the members of each unit that has any, [units, epochs]."""
        own = [self.unit == unit for unit in np.unique(self.unit)]
        gem, signal = (np.array([side[rows].mean(axis=0) for rows in own]) for side in (self.gem, self.signal))
        return gem, signal


@dataclass(frozen=True)
class CoMovement:
    """R^2 of a gem given existing features. `value` and `se` are NaN when `untested` says why there is no figure."""

    feature: str
    value: float
    se: float
    basis: str  # "raw" or "rank", whichever explains more
    units: int
    untested: str = ""


def co_movement(panel: Panel, feature: str) -> CoMovement:
    """R^2 of the gem given the feature's signal, over the epochs that every member has of both.

    Members are ranked within each epoch: that takes away any trend they share and keeps every monotone copy, whatever
    its form. Averaging members first would not, for the mean of exp is not exp of the mean.
    """
    whole = np.isfinite(panel.gem).all(axis=0) & np.isfinite(panel.signal).all(axis=0)
    gem, signal, units = panel.gem[:, whole], panel.signal[:, whole], len(np.unique(panel.unit))
    reason = _untested(gem, signal, units)
    if reason:
        return CoMovement(feature, float("nan"), float("nan"), "raw", units, reason)
    raw, rank = (grouped_r2(y, [x], panel.unit) for y, x in ((gem, signal), (_ranks(gem), _ranks(signal))))
    best = max((*raw, "raw"), (*rank, "rank"), key=lambda found: found[0])
    return CoMovement(feature, best[0], best[1], best[2], units)


def panels(rows: pd.DataFrame, configs: Sequence[str], target: str, feature: str) -> Panel:
    """Columns `target` and `feature` of a tidy frame with `config`, `trial`, `seed`, `fold` and `epoch`.

    A configuration is a unit, numbered by its place in `configs`.
    """
    member = ["config", "trial", "seed", "fold"]
    tables = [rows.pivot_table(index=member, columns="epoch", values=name) for name in (target, feature)]
    index, epochs = (one.union(other) for one, other in zip(*((t.index, t.columns) for t in tables), strict=True))
    gem, signal = (table.reindex(index=index, columns=epochs).to_numpy(float) for table in tables)
    place = {name: number for number, name in enumerate(configs)}
    unit = np.array([place[name] for name in index.get_level_values("config")], dtype=np.int64)
    order = np.argsort(unit, kind="stable")
    return Panel(gem[order], signal[order], unit[order])


def grouped_r2(gem: Matrix, signals: Sequence[Matrix], unit: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """(R^2, standard error) of `gem` [members, epochs] given `signals` of the same shape, leaving one unit out.

    unit [members]: to which unit a member belongs; by default each is one. Member means and epoch means are removed
    first: training trends shared by every signal would otherwise look like redundancy. The standard error is that of
    the ratio sum SSE / sum SST over units. NaN where the gem is constant.
    """
    y = demean(gem)
    x = np.stack([demean(signal) for signal in signals], axis=-1)
    of = np.arange(len(y)) if unit is None else np.unique(unit, return_inverse=True)[1]
    count = int(of.max()) + 1 if len(of) else 0
    total = np.bincount(of, (y * y).sum(axis=1), count)
    if count < FEWEST_UNITS or total.sum() == 0.0:
        return float("nan"), float("nan")
    error = np.bincount(of, ((y - _left_out_fit(x, y, of, count)) ** 2).sum(axis=1), count)
    ratio = float(error.sum() / total.sum())
    influence = (error - ratio * total) / total.mean()
    return 1.0 - ratio, float(influence.std(ddof=1) / np.sqrt(count))


def demean(values: Matrix) -> Matrix:
    """Removes row and column means of a balanced table."""
    return values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + values.mean()


def _left_out_fit(x: NDArray[np.float64], y: Matrix, of: NDArray[np.int64], count: int) -> Matrix:
    """Least squares of y [m, e] on x [m, e, k] by the normal equations, for each unit fitted on all others."""
    square, cross = np.zeros((count, *x.shape[2:], x.shape[2])), np.zeros((count, x.shape[2]))
    np.add.at(square, of, np.einsum("mek,mel->mkl", x, x))
    np.add.at(cross, of, np.einsum("mek,me->mk", x, y))
    inverse = np.linalg.pinv(square.sum(axis=0) - square, hermitian=True)
    slope = np.einsum("ukl,ul->uk", inverse, cross.sum(axis=0) - cross)
    return np.einsum("mek,mk->me", x, slope[of])


def _ranks(values: Matrix) -> Matrix:
    """Of each member within its epoch."""
    return np.asarray(rankdata(values, axis=0), dtype=float)


def _untested(gem: Matrix, signal: Matrix, units: int) -> str:
    if units < FEWEST_UNITS:
        return f"needs {FEWEST_UNITS} configurations"
    if gem.shape[1] < 2:
        return "needs two epochs that every member has"
    for name, values in (("gem", gem), ("feature", signal)):
        if np.abs(demean(values)).max() <= 1e-12 * max(np.abs(values).max(), 1e-300):
            return f"the {name} does not vary"
    return ""
