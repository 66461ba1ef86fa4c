"""Standard errors of one Sharpe ratio under four assumptions; the HAC one, which needs least, is what reports print.

Coverage of the 95 % interval at 1,000 bars: normal or t4 returns about 0.94 for all of them; autocorrelation +0.2: 0.94
for HAC, 0.89 for those that assume independence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics.aggregation import first_autocorrelation
from analysis.statistics.arrays import vector
from analysis.statistics.moments import Moments, as_moments, moments
from trainer.sharpe import hac_se


@dataclass(frozen=True)
class SharpeErrors:
    """A Sharpe ratio with its standard error under each assumption, all in the same unit (annual by default)."""

    value: float
    lo: float  # independent normal returns
    mertens: float  # independent returns, any skewness and kurtosis
    ar1: float  # AR(1) returns
    hac: float  # stationary returns


def sharpe_errors(returns: ArrayLike, *, periods_per_year: float) -> SharpeErrors:
    """Annualised Sharpe ratio (ddof 1) and errors: per-bar formulas times sqrt(periods_per_year).

    The scaling comes last: an annual ratio put into a per-bar formula gives 0.077 where 1.001 is right (Sharpe 1, 252
    daily bars). Raises ValueError for fewer than 2 bars and for returns that do not vary.
    """
    series = vector(returns, "returns", 2)
    found, scale = moments(series), float(np.sqrt(periods_per_year))
    ar1 = ar1_se(found, first_autocorrelation(series))
    return SharpeErrors(
        found.sharpe * scale, lo_se(found) * scale, mertens_se(found) * scale, ar1 * scale, hac_se(series) * scale
    )


def lo_se(returns: ArrayLike | Moments) -> float:
    """Per-bar error for independent normal returns: sqrt((1 + SR^2/2) / n). Lo (2002), FAJ 58(4)."""
    found = as_moments(returns)
    return float(np.sqrt((1.0 + 0.5 * found.sharpe**2) / found.n))


def mertens_se(returns: ArrayLike | Moments) -> float:
    """Per-bar error for independent returns: sqrt((1 - skew SR + (kurtosis - 1)/4 SR^2) / n). Mertens (2002)."""
    found = as_moments(returns)
    return float(np.sqrt(found.variance_factor / found.n))


def ar1_se(returns: ArrayLike | Moments, autocorrelation: float) -> float:
    """Per-bar error for AR(1) returns with the given first autocorrelation; Mertens' at 0.

    Lopez de Prado, Lipton and Zoonekynd (2025). Raises ValueError for an autocorrelation outside (-1, 1).
    """
    found, rho = as_moments(returns), float(autocorrelation)
    if not -1.0 < rho < 1.0:
        raise ValueError(f"autocorrelation must lie between -1 and 1, not {autocorrelation!r}")
    square = rho * rho / (1.0 - rho * rho)
    level, mixed, spread = 1.0 + 2.0 * rho / (1.0 - rho), 1.0 + rho / (1.0 - rho) + square, 1.0 + 2.0 * square
    ratio = found.sharpe
    factor = level - mixed * found.skew * ratio + 0.25 * spread * (found.kurtosis - 1.0) * ratio * ratio
    if factor < 0.0:
        raise ValueError(
            f"the AR(1) formula gives a negative variance at autocorrelation {rho:g}, skew {found.skew:g} and Sharpe "
            f"{ratio:g} per bar; use hac_se"
        )
    return float(np.sqrt(factor / found.n))
