"""Comparing numbers bit for bit.

Two values are the same when their bits are, so 0.0 and -0.0 differ. Two NaNs are the same whatever their payload and
sign, which the processor and the compiler choose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def unequal(stored: np.ndarray, new: np.ndarray) -> np.ndarray:
    """bool, shape of both: where two arrays of one dtype and shape hold different values."""
    if stored.dtype.kind != "f":
        return stored != new
    unsigned = UNSIGNED[stored.dtype.itemsize]
    return (stored.view(unsigned) != new.view(unsigned)) & ~(np.isnan(stored) & np.isnan(new))


def first_unequal(stored: np.ndarray, new: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first different value in row-major order, None when there is none."""
    different = unequal(stored, new)
    if not different.any():
        return None
    return tuple(int(position) for position in np.unravel_index(int(different.argmax()), different.shape))


def ulps(stored: Any, new: Any) -> int | None:
    """Count of representable steps between two floats of one dtype; 0 for 0.0 and -0.0; None if not comparable."""
    a, b = np.asarray(stored), np.asarray(new)
    if a.dtype != b.dtype or a.dtype.kind != "f" or np.isnan(a) or np.isnan(b):
        return None
    return abs(_order(a) - _order(b))


def _order(value: np.ndarray) -> int:
    """Integer that grows by one from each float to the next."""
    bits = int(value.view(UNSIGNED[value.dtype.itemsize]))
    sign = 1 << (8 * value.dtype.itemsize - 1)
    return sign - bits if bits & sign else bits
