"""The best of many trials without skill: how large its Sharpe ratio is by chance alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm

from analysis.statistics.arrays import Vector, matrix

DRAWS = 20_000
CHUNK = 2_000  # draws at a time, so that memory stays small with many trials
JITTER = 1e-9  # added to the diagonal: identical trials make a singular matrix


def expected_maximum(count: float, *, exact: bool = True) -> float:
    """E[max] of `count` independent standard normal numbers; `count` may be a fraction (an effective number).

    `exact` integrates; otherwise the closed form (1 - g) z(1 - 1/N) + g z(1 - 1/(N e)) of Bailey and Lopez de Prado
    (2014), which is 8 % low at 2 trials and 1 % high at 100, and which other libraries use.
    Raises ValueError below 1.
    """
    if not (np.isfinite(count) and count >= 1.0):
        raise ValueError(f"count must be at least 1, not {count!r}")
    if count == 1.0:
        return 0.0
    if not exact:
        weight = float(np.euler_gamma)
        return float((1.0 - weight) * norm.isf(1.0 / count) + weight * norm.isf(1.0 / (count * np.e)))
    above, _ = quad(lambda x: -np.expm1(count * log_ndtr(x)), 0.0, 40.0, limit=200)
    below, _ = quad(lambda x: np.exp(count * log_ndtr(x)), -40.0, 0.0, limit=200)
    return float(above - below)


def selection_threshold(variance: float, count: float, *, exact: bool = True) -> float:
    """SR0: the Sharpe ratio that the best of `count` independent trials without skill reaches on average.

    `variance` is that of the trials' Sharpe ratios; the result has its unit. With per-bar returns use the PER-BAR
    variance: an annual one is too large by the bars of a year.
    """
    if not (np.isfinite(variance) and variance >= 0.0):
        raise ValueError(f"variance must be finite and not negative, not {variance!r}")
    return float(np.sqrt(variance)) * expected_maximum(count, exact=exact)


def minimum_backtest_length(count: float, sharpe: float = 1.0, *, exact: bool = True) -> float:
    """MinBTL: years below which the best of `count` trials without skill is expected to show an annual Sharpe ratio of
    `sharpe`: (E[max] / sharpe)^2. Bailey, Borwein, Lopez de Prado and Zhu (2014), Notices AMS 61(5)."""
    if not sharpe > 0.0:
        raise ValueError(f"sharpe must be positive, not {sharpe!r}")
    return (expected_maximum(count, exact=exact) / sharpe) ** 2


def simulated_maxima(correlation: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> Vector:
    """Maxima of `draws` vectors from N(0, correlation): [draws] float64, the same for the same seed.

    For correlated trials no effective number gives E[max]; drawing works for any correlation [N, N].
    Raises ValueError for a matrix that is no correlation matrix.
    """
    factor = np.linalg.cholesky(_correlation(correlation))
    rng = np.random.default_rng(seed)
    sizes = [min(CHUNK, draws - start) for start in range(0, draws, CHUNK)]
    return np.concatenate([(rng.standard_normal((size, len(factor))) @ factor.T).max(axis=1) for size in sizes])


def _correlation(values: ArrayLike) -> Vector:
    given = matrix(values, "correlation")
    square = given.shape[0] == given.shape[1]
    if not (square and np.allclose(given, given.T) and np.allclose(np.diag(given), 1.0)):
        raise ValueError("correlation: expected a symmetric matrix with ones on its diagonal")
    if np.linalg.eigvalsh(given)[0] < -1e-8 * len(given):
        raise ValueError("correlation: it has a negative eigenvalue, so no trials can be correlated like this")
    return (given + JITTER * len(given) * np.eye(len(given))) / (1.0 + JITTER * len(given))
