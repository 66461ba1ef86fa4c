"""Group-sequential boundaries: the nominal level of each look, so that all looks together keep the level alpha.

Lan and DeMets (1983) error spending with the Pocock-type function alpha ln(1 + (e-1) t), where t is the share of the
largest sample. Repeated confidence intervals (Jennison and Turnbull 1989) use these levels at every look.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

LOWEST = -9.0  # standard deviations; the mass below is smaller than rounding
NODES = 256  # Gauss-Legendre nodes of each integral


def nominal_levels(schedule: Sequence[int], alpha: float) -> tuple[float, ...]:
    """One-sided nominal p-value of every look of `schedule` (increasing sample sizes), spending `alpha` in all.

    Raises ValueError when the schedule does not increase or alpha is outside (0, 0.5).
    """
    sizes = tuple(int(size) for size in schedule)
    if not sizes or sizes[0] < 2 or any(b <= a for a, b in pairwise(sizes)):
        raise ValueError(f"schedule must hold increasing sample sizes of at least 2, not {list(schedule)}")
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, not {alpha!r}")
    return _levels(sizes, float(alpha))


def spent(share: float, alpha: float) -> float:
    """Error spent by the time `share` (0 to 1) of the largest sample is in: Pocock type."""
    return float(alpha * np.log1p((np.e - 1.0) * share))


@lru_cache(maxsize=64)
def _levels(sizes: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """Recursion of Armitage, McPherson and Rowe (1969) on the score scale, S_k ~ N(0, t_k)."""
    times = [size / sizes[-1] for size in sizes]
    bound = float(norm.isf(spent(times[0], alpha)))
    levels = [float(norm.sf(bound))]
    nodes, weights = _grid(bound, times[0])
    density = norm.pdf(nodes, scale=np.sqrt(times[0]))
    for before, now in pairwise(times):
        step = np.sqrt(now - before)
        mass = density * weights
        target = spent(now, alpha) - spent(before, alpha)
        bound = _bound(mass, nodes, step, np.sqrt(now), target)
        levels.append(float(norm.sf(bound)))
        later, weights = _grid(bound, now)
        density = norm.pdf((later[:, None] - nodes[None, :]) / step) @ mass / step
        nodes = later
    return tuple(levels)


def _bound(mass: NDArray[np.float64], nodes: NDArray[np.float64], step: float, scale: float, target: float) -> float:
    """The z value that the walk, still below all earlier bounds, exceeds now with probability `target`."""

    def excess(bound: float) -> float:
        return float(mass @ norm.sf((bound * scale - nodes) / step)) - target

    return float(brentq(excess, -1.0, 12.0, xtol=1e-13))


def _grid(bound: float, time: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on the continuation region of a look, in score units."""
    low, high = LOWEST * np.sqrt(time), bound * np.sqrt(time)
    points, weights = np.polynomial.legendre.leggauss(NODES)
    return 0.5 * (high - low) * points + 0.5 * (high + low), 0.5 * (high - low) * weights
