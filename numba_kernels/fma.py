"""Fused multiply-add a*b + c with one rounding, on every target.

CUDA contracts products and sums into fma by itself and cannot be told not to; the CPU target never does. Writing fma
out wherever a product meets a sum makes both targets round the same way.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

_libm = ctypes.CDLL(ctypes.util.find_library("m"))
_libm.fma.restype = ctypes.c_double
_libm.fma.argtypes = [ctypes.c_double] * 3
_libm.fmaf.restype = ctypes.c_float
_libm.fmaf.argtypes = [ctypes.c_float] * 3


def fma(a: Any, b: Any, c: Any) -> Any:
    """Plain Python's version, used by the CUDA simulator: float32 if all three are numpy float32, else float64."""
    if all(isinstance(x, np.float32) for x in (a, b, c)):
        return np.float32(_libm.fmaf(a, b, c))
    return np.float64(_libm.fma(a, b, c))


def _lower_fma(typingctx, a, b, c):
    """numba's CPU version: three float32 or three float64; anything mixed is a typing error, a bug found early."""
    if a not in (types.float32, types.float64) or not a == b == c:
        return None
    return a(a, a, a), lambda context, builder, signature, arguments: builder.fma(*arguments)


cpu_fma: Any = intrinsic(_lower_fma)
