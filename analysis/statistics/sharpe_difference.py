"""Two Sharpe ratios on the same bars: the difference with its error and p-value.

For two SINGLE runs, such as the chosen trial against buy and hold. Power is low: years of daily bars cannot tell 0.5
apart. Whether a gem helps is asked of pairs of seeds (`paired.py`), which carry the spread of training too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from analysis.statistics.arrays import Vector, matched, probability
from analysis.statistics.ledoit_wolf import hac_difference_se, prewhitened_difference_se
from trainer.sharpe import is_flat

Method = Literal["hac", "prewhitened", "iid", "normal"]
SHORTEST = 20  # bars; the asymptotic errors below mean nothing with fewer
ROUNDING = 1e-7  # per bar; a difference and an error below it: the same series, up to its scale


@dataclass(frozen=True)
class SharpeDifference:
    """First minus second Sharpe ratio, with its error and normal interval, annual; `p` is two-sided."""

    value: float
    se: float
    interval: tuple[float, float]
    p: float
    method: Method
    n: int


def sharpe_difference(
    first: ArrayLike, second: ArrayLike, *, periods_per_year: float, method: Method = "hac", level: float = 0.95
) -> SharpeDifference:
    """Difference of the annualised Sharpe ratios (ddof 1) of two return series on the same bars.

    Methods, by what they assume: "hac" and "prewhitened" (stationary; Ledoit and Wolf 2008), "iid" (independent bars,
    any moments; Opdyke 2007), "normal" (independent bivariate normal bars; Jobson and Korkie 1981, Memmel 2003).
    The unit of the returns does not matter: both are divided by their common deviation first, because the bandwidth
    rule of Ledoit and Wolf gives percent another error than decimals (2 to 6 % apart with 120 bars).
    Raises ValueError for fewer than 20 bars, a series that does not vary, or an unknown method.
    """
    one, two = same_bars(first, second)
    if method not in ERRORS:
        raise ValueError(f"method must be one of {', '.join(ERRORS)}, not {method!r}")
    scale = float(np.sqrt(periods_per_year))
    value, se = ratio_difference(one, two), ERRORS[method](one, two)
    if max(abs(value), se) < ROUNDING:
        return SharpeDifference(0.0, 0.0, (0.0, 0.0), 1.0, method, len(one))
    half = float(norm.isf(0.5 * (1.0 - probability(level, "level")))) * se
    p = float(2.0 * norm.sf(abs(value) / se)) if se > 0.0 else 0.0
    bounds = ((value - half) * scale, (value + half) * scale)
    return SharpeDifference(value * scale, se * scale, bounds, p, method, len(one))


def normal_difference_se(first: Vector, second: Vector) -> float:
    """Per-bar error for bivariate normal bars: sqrt([2 - 2 r + (S1^2 + S2^2 - 2 S1 S2 r^2)/2] / n), r their
    correlation. Jobson and Korkie (1981) with the correction of Memmel (2003)."""
    one, two = (series.mean() / series.std(ddof=1) for series in (first, second))
    r = float(np.corrcoef(first, second)[0, 1])
    variance = 2.0 - 2.0 * r + 0.5 * (one * one + two * two - 2.0 * one * two * r * r)
    return float(np.sqrt(max(variance, 0.0) / len(first)))


def iid_difference_se(first: Vector, second: Vector) -> float:
    """Per-bar error for independent bars with any moments: the spread of the difference of the influence functions.
    Opdyke (2007), J. Asset Mgmt 8(5)."""
    return float(np.std(_influence(first) - _influence(second)) / np.sqrt(len(first)))


def same_bars(first: ArrayLike, second: ArrayLike) -> tuple[Vector, Vector]:
    """Two return series that can be compared, in units of their common deviation. ValueError otherwise."""
    one, two = matched(first, second, ("first", "second"), SHORTEST)
    for name, series in (("first", one), ("second", two)):
        if is_flat(series):
            raise ValueError(f"{name}: the returns do not vary, so their Sharpe ratio has no meaning")
    unit = float(np.sqrt(0.5 * (one.var() + two.var())))
    return one / unit, two / unit


def ratio_difference(first: Vector, second: Vector) -> float:
    """Per-bar Sharpe ratio (ddof 1) of `first` minus that of `second`."""
    return float(first.mean() / first.std(ddof=1) - second.mean() / second.std(ddof=1))


def _influence(returns: Vector) -> Vector:
    z = (returns - returns.mean()) / returns.std()
    return z - 0.5 * (returns.mean() / returns.std()) * (z * z - 1.0)


ERRORS: dict[Method, Callable[[Vector, Vector], float]] = {
    "hac": hac_difference_se,
    "prewhitened": prewhitened_difference_se,
    "iid": iid_difference_se,
    "normal": normal_difference_se,
}
