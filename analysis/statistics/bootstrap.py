"""Percentile bootstrap over PAIRS or runs, stratified by configuration.

A whole row is drawn: both arms of a pair, all windows of a run. Drawing arms or windows apart would throw away the
pairing that the design paid for. The interval speaks for these configurations with other seeds, not for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics.arrays import Vector, codes, probability

DRAWS = 10_000
CHUNK = 1_000  # draws at a time
Codes = NDArray[np.intp]
Statistic = Callable[..., NDArray[np.float64]]  # of arrays [..., n], over the last axis


@dataclass(frozen=True)
class Interval:
    """An estimate with its percentile interval, in the unit of the values."""

    value: float
    low: float
    high: float
    level: float


def bootstrap(
    statistic: Statistic,
    *columns: Vector,
    strata: ArrayLike | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """`statistic` of the columns with the percentile interval of `draws` resamples, the same for the same `seed`.

    `statistic` takes arrays [..., n] and works along the last axis; rows stay at a position of their own stratum.
    Raises ValueError when no stratum has two rows: resampling would change nothing and the interval be a point.
    """
    count = len(columns[0])
    groups = codes(strata, count)
    if draws < 1:
        raise ValueError(f"draws must be at least 1, not {draws}")
    if np.bincount(groups).max() < 2:
        what = "one value" if count == 1 else "every configuration has one value; leave strata out"
        raise ValueError(f"bootstrap: nothing to draw from: {what}")
    tail = 0.5 * (1.0 - probability(level, "level"))
    value = float(statistic(*columns))
    found = np.concatenate([statistic(*(column[rows] for column in columns)) for rows in _rows(groups, draws, seed)])
    low, high = np.quantile(found, [tail, 1.0 - tail])
    return Interval(value, float(low), float(high), level)


def _rows(groups: Codes, draws: int, seed: int) -> Iterator[Codes]:
    """Row numbers [chunk, n]; each position is filled from its own stratum."""
    rng = np.random.default_rng(seed)
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    for begin in range(0, draws, CHUNK):
        offset = (rng.random((min(CHUNK, draws - begin), len(groups))) * sizes[groups]).astype(np.intp)
        yield order[starts[groups] + offset]
