"""From the Sharpe ratio of a bar to that of q bars together. Only without autocorrelation is the factor sqrt(q)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics.arrays import vector
from analysis.statistics.moments import moments


def aggregation_factor(periods: int, autocorrelation: float | ArrayLike = 0.0) -> float:
    """eta(q) = q / sqrt(q + 2 sum over k < q of (q - k) rho_k). Lo (2002), FAJ 58(4), equation 20.

    `autocorrelation` is one number, the first autocorrelation of an AR(1) series (rho_k = rho^k), or the sequence
    rho_1, rho_2, ... with 0 beyond its end. The sign matters: negative autocorrelation makes the factor larger than
    sqrt(q). Raises ValueError where the variance of the sum would not be positive, which truncated sample
    autocorrelations can bring about and an AR(1) series cannot.
    """
    if int(periods) != periods or periods < 1:
        raise ValueError(f"periods must be a whole number of at least 1, not {periods!r}")
    lags = np.arange(1, int(periods))
    rho = np.asarray(autocorrelation, dtype=np.float64)
    if not (np.abs(rho) < 1.0).all():
        raise ValueError(f"autocorrelations must lie between -1 and 1, not {autocorrelation!r}")
    given = rho**lags if rho.ndim == 0 else np.pad(rho[: len(lags)], (0, max(len(lags) - len(rho), 0)))
    variance = float(periods + 2.0 * ((periods - lags) * given).sum())
    if variance <= 0.0:
        raise ValueError(
            f"the autocorrelations give the sum of {periods} bars a variance of {variance:.3g} bars; give the first "
            "one alone (AR(1)), or taper them with Bartlett weights"
        )
    return float(periods / np.sqrt(variance))


def aggregated_sharpe(returns: ArrayLike, periods: int) -> float:
    """Sharpe ratio (ddof 1) of `periods` bars together when the returns are AR(1): SR x eta(periods)."""
    series = vector(returns, "returns", 3)
    return moments(series).sharpe * aggregation_factor(periods, first_autocorrelation(series))


def first_autocorrelation(returns: ArrayLike) -> float:
    """Sample autocorrelation at lag 1, with the mean and variance of the whole series; always inside (-1, 1)."""
    series = vector(returns, "returns", 2)
    deviations = series - series.mean()
    total = float((deviations * deviations).sum())
    if total == 0.0:
        raise ValueError("returns: they do not vary, so they have no autocorrelation")
    return float((deviations[1:] * deviations[:-1]).sum()) / total
