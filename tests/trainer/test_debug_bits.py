"""Bitwise comparison and distances in ulps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.bits import first_unequal, ulps

FLOATS = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data(), steps=st.integers(0, 300))
def test_ulps_count_the_steps_of_nextafter(dtype, data, steps):
    width = 8 * np.dtype(dtype).itemsize
    start = dtype(data.draw(st.floats(-1e3, 1e3, width=width)))
    end = start
    for _ in range(steps):
        end = np.nextafter(end, dtype(np.inf))
    assert ulps(start, end) == ulps(end, start) == steps


@pytest.mark.parametrize(
    ("stored", "new", "expected"),
    [
        (np.float32(1), np.float64(1), None),
        (np.int64(1), np.int64(2), None),
        (np.float64("nan"), np.float64(1), None),
        (np.float64(0.0), np.float64(-0.0), 0),
        (np.float64(-5e-324), np.float64(5e-324), 2),
        (np.float32(np.finfo(np.float32).max), np.float32(np.inf), 1),
    ],
)
def test_ulps_at_the_edges(stored, new, expected):
    assert ulps(stored, new) == expected


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
def test_floats_are_equal_by_bits_or_when_both_are_nan(dtype, data):
    patterns = st.integers(0, 2 ** (8 * np.dtype(dtype).itemsize) - 1)
    a, b = (np.array([data.draw(patterns)], FLOATS[dtype]).view(dtype) for _ in range(2))
    same = a.tobytes() == b.tobytes() or bool(np.isnan(a[0]) and np.isnan(b[0]))
    assert (first_unequal(a, b) is None) == same
    assert first_unequal(a, a.copy()) is None


def test_the_first_difference_is_found_in_row_major_order():
    stored = np.zeros((2, 3), np.float32)
    new = stored.copy()
    new[1, 0] = -0.0
    new[1, 2] = 1
    assert first_unequal(stored, new) == (1, 0)
    assert first_unequal(stored.astype(int), new.astype(int)) == (1, 2)
    assert first_unequal(stored[:0], new[:0]) is None
    assert first_unequal(np.float32(1), np.float32(2)) == ()
