"""Arguments as float64 arrays; what no formula here can use is refused by the name of its argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def vector(values: ArrayLike, name: str, shortest: int = 1) -> Vector:
    """One-dimensional float64. ValueError for other shapes, fewer than `shortest` values, or one that is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, not shape {array.shape}")
    if len(array) < shortest:
        raise ValueError(f"{name}: {len(array)} values, at least {shortest} are needed")
    _finite(array, name)
    return array


def matched(first: ArrayLike, second: ArrayLike, names: tuple[str, str], shortest: int = 2) -> tuple[Vector, Vector]:
    """Two vectors, row by row of the same bar or pair.

    ValueError for different lengths, and for two pandas Series with different indexes: position would match what the
    labels say does not belong together.
    """
    given: tuple[Any, Any] = first, second
    if all(isinstance(values, pd.Series) for values in given) and not given[0].index.equals(given[1].index):
        raise ValueError(f"{names[0]} and {names[1]} have different indexes; align them: a.align(b, join='inner')")
    one, two = vector(first, names[0], shortest), vector(second, names[1], shortest)
    if len(one) != len(two):
        raise ValueError(f"{names[0]} has {len(one)} values and {names[1]} has {len(two)}; they go row by row")
    return one, two


def matrix(trials: ArrayLike | list[ArrayLike], name: str) -> Matrix:
    """[T, N] float64 from an array or frame with a column for each trial, or from a list of N equally long series."""
    if isinstance(trials, (list, tuple)):
        columns = [vector(series, f"{name}[{position}]") for position, series in enumerate(trials)]
        if len({len(column) for column in columns}) > 1:
            lengths = sorted({len(column) for column in columns})
            raise ValueError(f"{name}: series of {lengths} bars; all trials must cover the same bars")
        array = np.column_stack(columns) if columns else np.empty((0, 0))
    else:
        array = np.asarray(trials, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name}: expected [bars, trials] with something in it, not shape {array.shape}")
    _finite(array, name)
    return array


def codes(strata: ArrayLike | None, count: int, name: str = "strata") -> NDArray[np.intp]:
    """Labels as numbers from 0 in order of first appearance; all 0 for None. ValueError for a wrong length or a gap."""
    if strata is None:
        return np.zeros(count, dtype=np.intp)
    found, _ = pd.factorize(np.asarray(strata))
    if len(found) != count:
        raise ValueError(f"{name}: {len(found)} labels for {count} values")
    if (found < 0).any():
        raise ValueError(f"{name}: the label at {int((found < 0).argmax())} is missing")
    return found


def probability(value: float, name: str) -> float:
    """`value` when it lies between 0 and 1, both excluded; otherwise ValueError."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")
    return float(value)


def _finite(array: NDArray[np.float64], name: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(place) for place in np.argwhere(bad)[0])
        raise ValueError(f"{name}: {int(bad.sum())} of {array.size} values are not finite; the first is at {where}")
