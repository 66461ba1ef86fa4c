"""Studentised circular block bootstrap of the difference of two Sharpe ratios: the best size in small samples.

Ledoit and Wolf (2008), J. Empirical Finance 15, section 3.2. Whole bars are drawn, so that the correlation of the two
series stays, in blocks, so that autocorrelation within a block stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics.arrays import Vector, probability
from analysis.statistics.ledoit_wolf import prewhitened_difference_se
from analysis.statistics.sharpe_difference import ROUNDING, ratio_difference, same_bars

DRAWS = 4999
BLOCK = 5  # bars
CHUNK = 250  # draws at a time


@dataclass(frozen=True)
class BootstrappedDifference:
    """First minus second Sharpe ratio, annual, with the symmetric interval of the bootstrap; `p` is two-sided."""

    value: float
    interval: tuple[float, float]
    p: float
    block: int
    draws: int


def bootstrap_sharpe_difference(
    first: ArrayLike,
    second: ArrayLike,
    *,
    periods_per_year: float,
    block: int = BLOCK,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> BootstrappedDifference:
    """Difference of the annualised Sharpe ratios (ddof 1) on the same bars, the same for the same `seed`.

    d = |difference| / se, with the prewhitened error for the data and the spread of the block sums for each draw;
    p = (draws with d* >= d, + 1) / (draws + 1). `block` bars a block: longer with more autocorrelation.
    Raises ValueError as `sharpe_difference`, and for a block outside 1 .. T/2 or no draws.
    """
    one, two = same_bars(first, second)
    if not 1 <= block <= len(one) // 2:
        raise ValueError(f"block must lie between 1 and half of the {len(one)} bars, not {block}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, not {draws}")
    scale = float(np.sqrt(periods_per_year))
    value, se = ratio_difference(one, two), prewhitened_difference_se(one, two)
    if se < ROUNDING:
        raise ValueError("first and second are the same series up to scale; their difference has no spread")
    rng = np.random.default_rng(seed)
    sizes = [min(CHUNK, draws - start) for start in range(0, draws, CHUNK)]
    found = np.concatenate([_studentised(one, two, value, _blocks(rng, size, len(one), block)) for size in sizes])
    p = float((found >= abs(value) / se).sum() + 1) / (draws + 1)
    half = float(np.quantile(found, probability(level, "level"), method="higher")) * se
    return BootstrappedDifference(value * scale, ((value - half) * scale, (value + half) * scale), p, block, draws)


def _blocks(rng: np.random.Generator, draws: int, bars: int, block: int) -> NDArray[np.intp]:
    """Bar numbers [draws, blocks, block]; a block that runs over the end goes on at the start."""
    starts = rng.integers(0, bars, size=(draws, bars // block))
    return (starts[..., None] + np.arange(block)) % bars


def _studentised(first: Vector, second: Vector, value: float, bars: NDArray[np.intp]) -> Vector:
    """|difference of a draw - `value`| over the error of the draw, [draws]."""
    draws, blocks, block = bars.shape
    count = blocks * block
    ratio, influence = np.zeros(draws), np.zeros((draws, blocks, block))
    with np.errstate(divide="ignore", invalid="ignore"):
        for sign, series in ((1.0, first), (-1.0, second)):
            drawn = series[bars]
            mean, deviation = drawn.mean(axis=(1, 2), keepdims=True), drawn.std(axis=(1, 2), keepdims=True)
            z, sharpe = (drawn - mean) / deviation, mean / deviation
            ratio += sign * sharpe[:, 0, 0] * np.sqrt((count - 1.0) / count)
            influence += sign * (z - 0.5 * sharpe * (z * z - 1.0))
        # The delta method in one step: gradient times moment deviations is this influence function.
        sums = influence.sum(axis=2)
        found = np.abs(ratio - value) / np.sqrt((sums * sums).mean(axis=1) / block / count)
    return np.where(np.isnan(found), np.inf, found)  # a draw without variation speaks against nothing
