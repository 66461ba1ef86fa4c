"""The one definition of the Sharpe ratio in this project, with its standard error, and the interquartile mean.

Arithmetic is float64 numpy with pairwise sums and no BLAS, so that the thread count changes no bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Status = Literal["ok", "no_trades", "flat", "bankrupt", "short", "implausible"]

FLOOR = -3.0  # annualised; what a bankrupt or failed run scores
SHORTEST = 20  # bars; fewer say nothing about a standard deviation
IMPLAUSIBLE = 5.0  # |annualised| beyond this, after costs, is an error until somebody has looked at it
ESTIMATED: tuple[Status, ...] = ("ok", "implausible")  # the value is an estimate; under the others it is a convention
FLAT = 1e-12  # a standard deviation below this share of the largest |return| is rounding


@dataclass(frozen=True)
class SharpeEstimate:
    """An annualised Sharpe ratio.

    `value` and `se` are finite always. `se` is the HAC standard error, and 0 where the value is a convention rather
    than an estimate (every status but those of `ESTIMATED`): no average of errors may count it. `n` counts the bars.
    """

    value: float
    se: float
    status: Status
    n: int

    @property
    def estimated(self) -> bool:
        """True where `value` and `se` were measured, False where a convention stands in their place."""
        return self.status in ESTIMATED


def sharpe(
    returns: ArrayLike, *, periods_per_year: float, traded: bool = True, bankrupt: bool = False
) -> SharpeEstimate:
    """Annualised Sharpe ratio of per-bar simple net returns: mean / sd (ddof 1) x sqrt(periods_per_year).

    `returns` is one-dimensional; `periods_per_year` counts the bars actually present in a year. The first status that
    holds is given: bankrupt (value `FLOOR`), short (fewer than 20 bars, 0), no_trades (0), flat (no variation, 0),
    implausible (|value| > 5, value kept), ok. Raises ValueError for returns that are not finite or not one-dimensional.
    """
    series = _series(returns)
    if not (np.isfinite(periods_per_year) and periods_per_year > 0):
        raise ValueError(f"sharpe: periods_per_year must be positive and finite, not {periods_per_year!r}")
    n = len(series)
    if bankrupt:
        return SharpeEstimate(FLOOR, 0.0, "bankrupt", n)
    if n < SHORTEST:
        return SharpeEstimate(0.0, 0.0, "short", n)
    if not traded:
        return SharpeEstimate(0.0, 0.0, "no_trades", n)
    if is_flat(series):
        return SharpeEstimate(0.0, 0.0, "flat", n)
    scale = float(np.sqrt(periods_per_year))
    value = float(series.mean() / series.std(ddof=1)) * scale
    status: Status = "implausible" if abs(value) > IMPLAUSIBLE else "ok"
    return SharpeEstimate(value, hac_se(series) * scale, status, n)


def is_flat(returns: ArrayLike) -> bool:
    """True where the returns vary by rounding only, so that mean / sd would be a huge number without a meaning."""
    series = _series(returns)
    if len(series) < 2 or np.ptp(series) == 0.0:
        return True
    return bool(series.std(ddof=1) <= FLAT * np.abs(series).max())


def hac_se(returns: ArrayLike, lags: int | None = None) -> float:
    """HAC standard error of the per-bar Sharpe ratio, by its influence function and Bartlett weights.

    u_t = z_t - SR/2 (z_t^2 - 1) with z the standardised return; se = sqrt(LRV(u) / T). Lo (2002), "The Statistics of
    Sharpe Ratios", GMM section; Opdyke (2007). `lags` defaults to max(5, floor(4 (T/100)^(2/9))) and is capped at T-1.
    Raises ValueError for a flat series.
    """
    series = _series(returns)
    if is_flat(series):
        raise ValueError("hac_se: the returns do not vary")
    count = len(series)
    if lags is None:
        lags = default_lags(count)
    # ddof 0 standardises z exactly, so that u has mean 0 and lags=0 gives the iid error of Mertens (2002).
    z = (series - series.mean()) / series.std()
    ratio = float(series.mean() / series.std())
    u = z - 0.5 * ratio * (z * z - 1.0)
    variance = float((u * u).sum()) / count
    for lag in range(1, min(lags, count - 1) + 1):
        weight = 1.0 - lag / (lags + 1.0)
        variance += 2.0 * weight * float((u[lag:] * u[:-lag]).sum()) / count
    return float(np.sqrt(max(variance, 0.0) / count))


def default_lags(count: int) -> int:
    """Bartlett lags for `count` bars: max(5, floor(4 (count/100)^(2/9))), Newey and West (1994)."""
    return max(5, int(4.0 * (count / 100.0) ** (2.0 / 9.0)))


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: the mean after floor(n/4) values are dropped at each end (Agarwal et al. 2021).

    Raises ValueError for no values and for values that are not finite.
    """
    ordered = np.sort(_series(values))
    if not len(ordered):
        raise ValueError("iqm: no values")
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def _series(values: ArrayLike) -> NDArray[np.float64]:
    series = np.ascontiguousarray(values, dtype=np.float64)
    if series.ndim != 1:
        raise ValueError(f"expected one dimension, not shape {series.shape}")
    bad = ~np.isfinite(series)
    if bad.any():
        raise ValueError(
            f"{int(bad.sum())} of {len(series)} values are not finite; the first is at {int(bad.argmax())}"
        )
    return series
