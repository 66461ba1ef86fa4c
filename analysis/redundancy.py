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
class CoMovement:
    """R^2 of a gem given existing features. `value` and `se` are NaN when `untested` says why there is no figure."""

    feature: str
    value: float
    se: float
    basis: str  # "raw" or "rank", whichever explains more
    units: int
    untested: str = ""


def co_movement(gem: Matrix, signal: Matrix, feature: str) -> CoMovement:
    """R^2 of `gem` given `signal`, both [units, epochs] with NaN where a value is missing.

    Only epochs that every unit has of both are used.
    """
    whole = np.isfinite(gem).all(axis=0) & np.isfinite(signal).all(axis=0)
    gem, signal = gem[:, whole], signal[:, whole]
    reason = _untested(gem, signal)
    if reason:
        return CoMovement(feature, float("nan"), float("nan"), "raw", len(gem), reason)
    best = max(
        (*grouped_r2(gem, [signal]), "raw"), (*grouped_r2(_ranks(gem), [_ranks(signal)]), "rank"), key=lambda r: r[0]
    )
    return CoMovement(feature, best[0], best[1], best[2], len(gem))


def panels(rows: pd.DataFrame, configs: Sequence[str], target: str, feature: str) -> tuple[Matrix, Matrix]:
    """Columns `target` and `feature` of a tidy frame with `config` and `epoch` as [configs, epochs]; rows of one
    configuration and epoch are averaged."""
    tables = [
        rows.pivot_table(index="config", columns="epoch", values=name, aggfunc="mean") for name in (target, feature)
    ]
    epochs = tables[0].columns.intersection(tables[1].columns)
    first, second = (table.reindex(index=list(configs), columns=epochs).to_numpy(float) for table in tables)
    return first, second


def grouped_r2(gem: Matrix, signals: Sequence[Matrix]) -> tuple[float, float]:
    """(R^2, standard error) of `gem` [units, epochs] given `signals` of the same shape, leaving one unit out.

    Unit means and epoch means are removed first: training trends shared by every signal would otherwise look like
    redundancy. The standard error is that of the ratio sum SSE / sum SST over units. NaN where the gem is constant.
    """
    y = demean(gem)
    x = np.stack([demean(signal) for signal in signals], axis=-1)
    total = (y * y).sum(axis=1)
    if len(y) < FEWEST_UNITS or total.sum() == 0.0:
        return float("nan"), float("nan")
    error = np.array([_left_out_error(x, y, unit) for unit in range(len(y))])
    ratio = float(error.sum() / total.sum())
    influence = (error - ratio * total) / total.mean()
    return 1.0 - ratio, float(influence.std(ddof=1) / np.sqrt(len(y)))


def demean(values: Matrix) -> Matrix:
    """Removes unit and epoch means of a balanced [units, epochs] table."""
    return values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + values.mean()


def _left_out_error(x: Matrix, y: Matrix, unit: int) -> float:
    others = np.arange(len(y)) != unit
    slope, *_ = np.linalg.lstsq(x[others].reshape(-1, x.shape[-1]), y[others].ravel(), rcond=None)
    residual = y[unit] - x[unit] @ slope
    return float((residual * residual).sum())


def _ranks(values: Matrix) -> Matrix:
    centred = values - values.mean(axis=0, keepdims=True)
    return rankdata(centred.ravel()).reshape(values.shape)


def _untested(gem: Matrix, signal: Matrix) -> str:
    if len(gem) < FEWEST_UNITS:
        return f"needs {FEWEST_UNITS} configurations"
    if gem.shape[1] < 2:
        return "needs two epochs in every configuration"
    for name, values in (("gem", gem), ("feature", signal)):
        if np.abs(demean(values)).max() <= 1e-12 * max(np.abs(values).max(), 1e-300):
            return f"the {name} does not vary"
    return ""
