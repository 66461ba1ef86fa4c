"""Intervals that stay valid however often one looks, at the sample sizes of a schedule fixed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t

from analysis.boundaries import nominal_levels
from analysis.statistics.arrays import vector


@dataclass(frozen=True)
class RepeatedInterval:
    """The look at the first `n` values: their mean, the interval, and the t quantile behind it."""

    n: int
    mean: float
    low: float
    high: float
    quantile: float


def repeated_intervals(values: ArrayLike, schedule: Sequence[int], alpha: float) -> tuple[RepeatedInterval, ...]:
    """Repeated confidence intervals mean -+ t sd / sqrt(n) at every look that `values` reach (sd with ddof 1).

    `values` are one number for each independent unit IN LAUNCH ORDER: finishing order is not random. Either end is
    wrong at any look with probability `alpha` at most (one-sided; divide it by the number of claims). Jennison and
    Turnbull (1989), with the levels of `analysis.boundaries`. Raises ValueError for a schedule that does not increase.
    """
    series = vector(values, "values")
    levels = nominal_levels(schedule, alpha)
    reached = [(int(n), level) for n, level in zip(schedule, levels, strict=True) if n <= len(series)]
    return tuple(_look(series[:n], level) for n, level in reached)


def _look(first: np.ndarray, level: float) -> RepeatedInterval:
    n, mean, quantile = len(first), float(first.mean()), float(t.isf(level, len(first) - 1))
    half = quantile * float(first.std(ddof=1)) / np.sqrt(n)
    return RepeatedInterval(n, mean, float(mean - half), float(mean + half), quantile)
