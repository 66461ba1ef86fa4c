"""How well is a variance known? Chi-square intervals, with degrees of freedom that respect groups.

All of them assume normal values. Twelve values give a factor of 0.50 to 2.88: a variance from few seeds is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, f

from analysis.statistics.arrays import Vector, codes, probability, vector


@dataclass(frozen=True)
class Layout:
    """One-way layout of `n` values in groups: sums of squares between and within, and their degrees of freedom."""

    n: int
    between: float
    within: float
    df_between: int
    df_within: int

    @property
    def df(self) -> float:
        """Degrees of freedom of the variance of all values together: Satterthwaite (1946).

        n - 1 where groups do not differ, but hardly more than groups - 1 where they differ a lot: many seeds of three
        configurations know the variance as three configurations do.
        """
        parts = [(self.between, self.df_between), (self.within, self.df_within)]
        total = sum(square for square, _ in parts)
        if total == 0.0:
            return float(self.n - 1)
        return total**2 / sum(square**2 / df for square, df in parts if df > 0)


def layout(values: ArrayLike, groups: ArrayLike) -> Layout:
    """The one-way layout of `values` in the given groups."""
    array = vector(values, "values")
    labels = codes(groups, len(array), "groups")
    sizes = np.bincount(labels)
    means = np.bincount(labels, array) / sizes
    between = float((sizes * (means - array.mean()) ** 2).sum())
    within = float(((array - means[labels]) ** 2).sum())
    return Layout(len(array), between, within, len(sizes) - 1, len(array) - len(sizes))


def variance_interval(variance: float, df: float, level: float = 0.95) -> tuple[float, float]:
    """Chi-square interval of a variance with `df` degrees of freedom; NaN where df < 1 or the variance is not known."""
    tail = 0.5 * (1.0 - probability(level, "level"))
    if not df >= 1.0 or not np.isfinite(variance):
        return float("nan"), float("nan")
    return float(df * variance / chi2.isf(tail, df)), float(df * variance / chi2.ppf(tail, df))


def component_interval(
    between: float, df_between: int, within: float, df_within: int, size: float, level: float = 0.95
) -> tuple[float, float]:
    """Interval of the variance of groups without the noise of their members: Williams (1962), at least 0.

    `between` is the variance of the group means (ddof 1), each a mean of `size` members (harmonic mean where they
    differ: Thomas and Hultquist 1978); `within` is the pooled variance of members. NaN where either is not known.
    """
    tail = 0.5 * (1.0 - probability(level, "level"))
    if df_between < 1 or df_within < 1 or not np.isfinite([between, within]).all():
        return float("nan"), float("nan")
    noise = within / size
    low = (between - noise * f.isf(tail, df_between, df_within)) * df_between / chi2.isf(tail, df_between)
    high = (between - noise * f.ppf(tail, df_between, df_within)) * df_between / chi2.ppf(tail, df_between)
    return max(float(low), 0.0), max(float(high), 0.0)


def pooled_within(values: Vector, groups: ArrayLike) -> tuple[float, int]:
    """(variance, degrees of freedom) of values around the mean of their group; NaN without degrees of freedom."""
    found = layout(values, groups)
    return (found.within / found.df_within if found.df_within else float("nan")), found.df_within
