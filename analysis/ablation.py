"""Does an existing feature do already what the gem would do? Its size with the feature on and with it off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.interval import mean_interval

State = Literal["nonzero", "zero", "open", "too few"]
FEWEST = 3  # configurations with the feature off


@dataclass(frozen=True)
class Ablation:
    """The gem's size without `feature`, geometric mean over `n` configurations with its interval, as a share of
    |c51_bs|; `state` is what the interval says against the limit of zero."""

    feature: str
    n: int
    estimate: float
    low: float
    high: float
    state: State


def ablation(feature: str, log10_sizes: NDArray[np.float64], level: float, log10_limit: float) -> Ablation:
    """`log10_sizes` [n], NaN where a configuration has none; `level`: one-sided, of either end of the interval."""
    known = log10_sizes[np.isfinite(log10_sizes)]
    if len(known) < FEWEST:
        return Ablation(feature, len(known), float("nan"), float("nan"), float("nan"), "too few")
    low, mean, high = mean_interval(known, level)
    state: State = "nonzero" if low > log10_limit else "zero" if high < log10_limit else "open"
    return Ablation(feature, len(known), 10.0**mean, 10.0**low, 10.0**high, state)
