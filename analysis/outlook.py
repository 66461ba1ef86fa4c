"""What a budget can decide, before anything runs: width of the interval and chance to see an effect, look by look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, t

from analysis.boundaries import nominal_levels
from analysis.rules import VerdictRules
from analysis.statistics.power import paired_power

EFFECTS = (0.2, 0.3, 0.5)  # annualised Sharpe
SD = 0.63  # of the difference of two runs of one pair, annualised Sharpe: simulated, 1,500 daily bars, seed sd 0.4


@dataclass(frozen=True)
class Look:
    """One scheduled look at `n` configurations: half-width of the repeated interval of the mean difference, in
    annualised Sharpe, and the chance that this look alone shows each of `EFFECTS` to be above 0."""

    n: int
    half_width: float
    power: tuple[float, ...]


def outlook(rules: VerdictRules, claims: int, sd: float, configurations: int) -> list[Look]:
    """The looks that `configurations` allow. `sd`: of the difference over configurations, in annualised Sharpe;
    `claims`: gems times doses, which share alpha. Raises ValueError for an sd that is not positive."""
    if not sd > 0.0:
        raise ValueError(f"sd must be positive, not {sd!r}")
    levels = nominal_levels(rules.schedule, rules.alpha / claims)
    allowed = [(n, level) for n, level in zip(rules.schedule, levels, strict=True) if n <= configurations]
    return [
        Look(n, half_width(n, level, sd), tuple(paired_power(e / sd, n, alpha=level) for e in EFFECTS))
        for n, level in allowed
    ]


def half_width(n: int, level: float, sd: float) -> float:
    """Of the interval of a mean of `n` values with standard deviation `sd`, one-sided `level` on either side."""
    return float(t.isf(level, n - 1) * sd / np.sqrt(n))


def seen_sd(differences: np.ndarray, quantile: float = 0.2) -> float:
    """A standard deviation to plan with from `differences` [n >= 2] seen: the estimate divided by the root of a low
    quantile of chi-square, since a plan built on a lucky one disappoints."""
    n = len(differences)
    return float(differences.std(ddof=1) * np.sqrt((n - 1) / chi2.ppf(quantile, n - 1)))
