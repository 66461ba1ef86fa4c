"""The four numbers of a return series that every formula for the error of a Sharpe ratio asks for, per bar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kurtosis, skew

from analysis.statistics.arrays import vector
from trainer.sharpe import is_flat

BELOW = 1e-9  # rounding allowed at the least kurtosis that a skewness permits


@dataclass(frozen=True)
class Moments:
    """`n` bars, Sharpe ratio PER BAR, skewness, and Pearson's kurtosis (3 for normal returns).

    Not annual, and not excess kurtosis: both mistakes are frequent in published tables. The second is refused where it
    shows: no distribution has a Pearson kurtosis below 1 + skew^2.
    """

    n: int
    sharpe: float
    skew: float = 0.0
    kurtosis: float = 3.0

    def __post_init__(self) -> None:
        if self.n < 2:
            raise ValueError(f"Moments: n must be at least 2 bars, not {self.n}")
        if not np.isfinite([self.sharpe, self.skew, self.kurtosis]).all():
            raise ValueError(f"Moments: not finite: {self}")
        if self.kurtosis < 1.0 + self.skew**2 - BELOW * (1.0 + self.skew**2):
            raise ValueError(
                f"Moments: kurtosis {self.kurtosis:g} is impossible with skew {self.skew:g}; give Pearson's kurtosis, "
                "which is the excess + 3"
            )

    @property
    def variance_factor(self) -> float:
        """1 - skew SR + (kurtosis - 1)/4 SR^2: the variance of the Sharpe ratio times the bars, Mertens (2002)."""
        ratio = self.sharpe
        return max(1.0 - self.skew * ratio + 0.25 * (self.kurtosis - 1.0) * ratio * ratio, 0.0)


def moments(returns: ArrayLike) -> Moments:
    """Per-bar moments: Sharpe with ddof 1; skewness and kurtosis biased (division by n), as in Bailey and Lopez de
    Prado (2012). Raises ValueError for returns that do not vary."""
    series = vector(returns, "returns", 2)
    if is_flat(series):
        raise ValueError("returns: they do not vary, so their Sharpe ratio has no meaning")
    ratio = float(series.mean() / series.std(ddof=1))
    return Moments(len(series), ratio, float(skew(series)), float(kurtosis(series, fisher=False)))


def as_moments(returns: ArrayLike | Moments) -> Moments:
    """Moments as they are, and those of anything else."""
    return returns if isinstance(returns, Moments) else moments(returns)
