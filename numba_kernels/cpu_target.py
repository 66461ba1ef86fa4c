"""How functions are compiled for the CPU."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from numba import njit

from .cache import cache_directory, caching_into_our_folder
from .fma import cpu_fma
from .retarget import retarget


def cpu_kernel(function: Callable) -> Any:
    """Serial machine code for a CPU twin. error_model="numpy": a division by zero gives inf or NaN, as on the GPU."""
    with caching_into_our_folder():
        return njit(cache=cache_directory() is not None, error_model="numpy", nogil=True)(function)


def cpu_function(function: Callable) -> Any:
    """A function that CPU twins call; compiled into its callers, so it has no cache entry of its own."""
    return njit(error_model="numpy", nogil=True)(function)


def for_cpu(arithmetic: types.ModuleType) -> types.SimpleNamespace:
    """The functions of an arithmetic module for CPU twins."""
    return retarget(arithmetic, cpu_function, fma=cpu_fma)
