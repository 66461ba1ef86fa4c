"""Is a mean practically zero? Equivalence has to be shown; a difference that is not significant shows nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t

from analysis.statistics.arrays import vector


@dataclass(frozen=True)
class Equivalence:
    """Posterior probabilities of the mean of `n` values under a flat prior: below -bound, inside, above +bound.

    `p` is that of the two one-sided tests (TOST), the larger of `below` and `above`: the same number.
    """

    n: int
    mean: float
    se: float
    bound: float
    below: float
    inside: float
    above: float
    p: float

    def equivalent(self, alpha: float = 0.05) -> bool:
        """True when the 1 - 2 alpha interval of the mean lies within the bound."""
        return self.p < alpha


def equivalence(values: ArrayLike, bound: float) -> Equivalence:
    """TOST of |mean| < `bound` (Schuirmann 1987; Lakens 2017) and the posterior mean + se t(n - 1) of a flat prior.

    `values` are independent units, such as differences of pairs; sd has ddof 1. Raises ValueError for fewer than 2
    values and for a bound that is not positive.
    """
    series = vector(values, "values", 2)
    if not (np.isfinite(bound) and bound > 0.0):
        raise ValueError(f"bound must be positive and finite, not {bound!r}")
    n, mean, se = len(series), float(series.mean()), float(series.std(ddof=1) / np.sqrt(len(series)))
    if se == 0.0:
        below, above = float(mean <= -bound), float(mean >= bound)
    else:
        below, above = (float(t.cdf((sign * mean - bound) / se, n - 1)) for sign in (-1.0, 1.0))
    return Equivalence(n, mean, se, float(bound), below, max(1.0 - below - above, 0.0), above, max(below, above))
