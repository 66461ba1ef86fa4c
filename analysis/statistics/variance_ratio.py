"""The ratio of two variances with an interval. It describes; whether the spread fell is decided by Brown-Forsythe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, t, trim_mean

from analysis.statistics.arrays import Vector, codes, matched, probability, vector
from analysis.statistics.variance import pooled_within


@dataclass(frozen=True)
class VarianceRatio:
    """Variance of the treatment over that of the control; the interval comes from the logarithm and its error.

    With pairs `log` is the jackknife's estimate, whose bias is removed; `value` is the plain ratio.
    """

    value: float
    log: float
    log_se: float
    interval: tuple[float, float]


def paired_variance_ratio(
    control: ArrayLike, treatment: ArrayLike, strata: ArrayLike | None = None, *, level: float = 0.95
) -> VarianceRatio:
    """Ratio of the variances within configurations, over pairs: jackknife of log(ratio), Miller (1968), n - 1 degrees
    of freedom. Leaving out whole pairs keeps their correlation. Measured error rate 5 to 7 % at nominal 5 %.

    Raises ValueError with fewer than 3 pairs in a configuration, or where a variance is 0.
    """
    one, two = matched(control, treatment, ("control", "treatment"), 3)
    groups = codes(strata, len(one))
    if np.bincount(groups).min() < 3:
        raise ValueError("strata: every configuration needs at least 3 pairs for the jackknife")
    value = _log_ratio(one, two, groups)
    n = len(one)
    rest = [np.arange(n) != left_out for left_out in range(n)]
    pseudo = np.array([n * value - (n - 1) * _log_ratio(one[keep], two[keep], groups[keep]) for keep in rest])
    log, se = float(pseudo.mean()), float(pseudo.std(ddof=1) / np.sqrt(n))
    half = float(t.isf(0.5 * (1.0 - probability(level, "level")), n - 1)) * se
    return VarianceRatio(float(np.exp(value)), log, se, (float(np.exp(log - half)), float(np.exp(log + half))))


def variance_ratio(control: ArrayLike, treatment: ArrayLike, *, level: float = 0.95) -> VarianceRatio:
    """Ratio of the variances of two INDEPENDENT samples, such as two experiments without common seeds.

    Bonett (2006), Appl. Psych. Measurement 30: normal interval of the log ratio with the pooled kurtosis around
    trimmed means, which holds up under heavy tails. Raises ValueError for fewer than 5 values, or a variance of 0.
    """
    one, two = vector(control, "control", 5), vector(treatment, "treatment", 5)
    for name, values in (("control", one), ("treatment", two)):
        if np.ptp(values) == 0.0:
            raise ValueError(f"{name}: its values do not vary")
    kurtosis = _pooled_kurtosis(one, two)
    variance = sum((kurtosis - (len(values) - 3.0) / len(values)) / (len(values) - 1.0) for values in (one, two))
    log, se = float(np.log(two.var(ddof=1) / one.var(ddof=1))), float(np.sqrt(variance))
    half = float(norm.isf(0.5 * (1.0 - probability(level, "level")))) * se
    return VarianceRatio(float(np.exp(log)), log, se, (float(np.exp(log - half)), float(np.exp(log + half))))


def _pooled_kurtosis(*samples: Vector) -> float:
    fourth = squares = 0.0
    for values in samples:
        centre = trim_mean(values, 0.5 / np.sqrt(len(values) - 4.0))
        fourth += float(((values - centre) ** 4).sum())
        squares += float(((values - values.mean()) ** 2).sum())
    return fourth * sum(len(values) for values in samples) / squares**2


def _log_ratio(control: Vector, treatment: Vector, groups: ArrayLike) -> float:
    before, after = pooled_within(control, groups)[0], pooled_within(treatment, groups)[0]
    if before == 0.0 or after == 0.0:
        raise ValueError(f"{'control' if before == 0.0 else 'treatment'}: no variance within configurations")
    return float(np.log(after / before))
