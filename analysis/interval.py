"""The t interval that every look uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t


def mean_interval(values: NDArray[np.float64], level: float) -> tuple[float, float, float]:
    """(low, mean, high) of the mean of `values` [n >= 2], one-sided `level` on either side."""
    n, mean = len(values), float(values.mean())
    half = float(t.isf(level, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return mean - half, mean, mean + half
