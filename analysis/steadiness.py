"""Does wiring calm training? Change of the distance from the configuration's own median, pair by pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 3  # pairs of a configuration: with two, both lie equally far from their median by construction


def deviation_change(control: NDArray[np.float64], treatment: NDArray[np.float64]) -> float:
    """Mean over the pairs of one configuration of |treatment - median| - |control - median|; NaN with fewer than three.

    The unit of the paired Brown-Forsythe test (1974, JASA 69:364, on paired data), which alone among the tests of
    variances keeps its level under heavy tails. `control`, `treatment` [pairs].
    """
    if len(control) < FEWEST:
        return float("nan")
    calm = np.abs(treatment - np.median(treatment)) - np.abs(control - np.median(control))
    return float(calm.mean())
