"""The bits of a float32 as an int32 and back, on every target."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


def bits_of(x: Any) -> Any:
    """Plain Python's version, used by the CUDA simulator."""
    return np.float32(x).view(np.int32)


def float_of(bits: Any) -> Any:
    """The way back."""
    return np.int32(bits).view(np.float32)


_njit: Any = numba.njit  # its type stub lacks the wrapper options
cpu_bits_of: Any = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(bits_of)
cpu_float_of: Any = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(float_of)
