"""How many pairs does an effect need? At one fixed n; a schedule of looks needs more."""

from __future__ import annotations

import numpy as np
from scipy.stats import nct, t

from analysis.statistics.arrays import probability

MOST = 10_000_000  # pairs; an effect that needs more is none


def paired_power(effect: float, pairs: int, *, alpha: float = 0.05) -> float:
    """Power of the one-sided paired t-test at `alpha`; `effect` = (true mean - boundary) / sd of the differences."""
    if pairs < 2:
        raise ValueError(f"pairs must be at least 2, not {pairs}")
    bound = t.isf(probability(alpha, "alpha"), pairs - 1)
    return float(nct.sf(bound, pairs - 1, effect * np.sqrt(pairs)))


def pairs_for_power(effect: float, power: float = 0.8, *, alpha: float = 0.05) -> int:
    """Fewest pairs with at least `power`. Raises ValueError for an effect that is not positive, or needs too many."""
    if not effect > 0.0:
        raise ValueError(f"effect must be positive, not {effect!r}; no number of pairs shows an effect of 0")
    goal = probability(power, "power")
    high = 2
    while paired_power(effect, high, alpha=alpha) < goal:
        high *= 2
        if high > MOST:
            raise ValueError(f"an effect of {effect:g} standard deviations needs more than {MOST} pairs")
    low = max(high // 2, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if paired_power(effect, middle, alpha=alpha) < goal else (low, middle)
    return high
