"""How functions are compiled for the CPU."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numba

from .cache import cache_directory, caching_into_our_folder
from .fma import cpu_fma
from .reinterpret import cpu_bits_of, cpu_float_of
from .retarget import retarget

_njit: Any = numba.njit  # its type stub lacks the wrapper options

# error_model "numpy": a division by zero gives inf or NaN, as on the GPU. No C wrapper: nobody calls through one.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}


def cpu_kernel(function: Callable) -> Any:
    """Decorates a CPU twin: serial machine code, kept on disk. Compiled later, by `Operation.compile_cpu`."""
    with caching_into_our_folder():
        return _njit(cache=cache_directory() is not None, **OPTIONS)(function)


def cpu_function(function: Callable) -> Any:
    """A function that CPU twins call; compiled into them, so it has no cache entry and no wrappers of its own."""
    return _njit(no_cpython_wrapper=True, **OPTIONS)(function)


def for_cpu(arithmetic: types.ModuleType, **callees: Any) -> types.SimpleNamespace:
    """The functions of an arithmetic module for CPU twins; `callees` are those that it imports, made for the CPU."""
    primitives = {"fma": cpu_fma, "bits_of": cpu_bits_of, "float_of": cpu_float_of}
    return retarget(arithmetic, cpu_function, **primitives, **callees)
