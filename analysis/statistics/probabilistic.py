"""How probable is it that the true Sharpe ratio exceeds a benchmark, and how many bars would settle it?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from analysis.statistics.arrays import probability
from analysis.statistics.moments import Moments, as_moments


def probabilistic_sharpe(returns: ArrayLike | Moments, benchmark: float = 0.0) -> float:
    """PSR = Phi((SR - benchmark) sqrt(n - 1) / sqrt(1 - skew SR + (kurtosis - 1)/4 SR^2)).

    Bailey and Lopez de Prado (2012), J. Risk 15(2), with their convention: everything PER BAR (`benchmark` too),
    Sharpe with ddof 1, biased moments, Pearson's kurtosis, the variance at the estimate. Libraries differ: ddof 0 and
    unbiased moments, or the variance at the benchmark, move the third digit. Independent returns are assumed.
    """
    found = as_moments(returns)
    distance = (found.sharpe - benchmark) * np.sqrt(found.n - 1.0)
    error = np.sqrt(found.variance_factor)
    if error == 0.0:  # a two-point distribution whose Sharpe ratio cannot move
        return 0.5 * (1.0 + float(np.sign(distance)))
    return float(norm.cdf(distance / error))


def minimum_track_record(returns: ArrayLike | Moments, benchmark: float = 0.0, *, alpha: float = 0.05) -> float:
    """MinTRL: bars at which the PSR would reach 1 - `alpha`, if the moments stay. Infinite unless SR > `benchmark`.

    1 + (1 - skew SR + (kurtosis - 1)/4 SR^2) (z / (SR - benchmark))^2, all per bar. Same paper, equation 11. Not
    rounded up.
    """
    found, level = as_moments(returns), probability(alpha, "alpha")
    if found.sharpe <= benchmark:
        return float("inf")
    return float(1.0 + found.variance_factor * (norm.isf(level) / (found.sharpe - benchmark)) ** 2)
