"""The one place that imports numba.cuda. Importing it starts no CUDA context and works without a GPU."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from numba import cuda as _cuda
from numba.core import config

from .cache import cache_directory, caching_into_our_folder
from .retarget import retarget

cuda: Any = _cuda  # numba.cuda describes neither thread indices nor stubs to a type checker

if getattr(config, "ENABLE_CUDASIM", 0):
    raise ImportError(
        "unset NUMBA_ENABLE_CUDASIM: kernels are simulated by numba_kernels.simulator, not by numba's simulator"
    )
if getattr(cuda, "implementation", "") != "NVIDIA":
    raise ImportError(
        "the kernels need the numba-cuda package, not numba's built-in CUDA target: pip install numba-cuda"
    )

from numba.cuda.core import config as cuda_config  # noqa: E402  the plain message above comes first


def cuda_kernel(block: int) -> Callable[[Callable], Any]:
    """Decorates a kernel that is launched with `block` threads a block. Compiled later, by `CudaKernel.specialise`."""
    return cuda.jit(launch_bounds=block)


def cuda_function(function: Callable) -> Any:
    """A function that kernels call; compiled into them."""
    return cuda.jit(device=True)(function)


@cuda_function
def fma(a, b, c):
    """a*b + c with one rounding, of three float32 or three float64."""
    return cuda.fma(a, b, c)


@cuda_function
def bits_of(x):
    """The bits of a float32 as an int32."""
    return cuda.libdevice.float_as_int(x)


@cuda_function
def float_of(bits):
    """The float32 with the bits of an int32."""
    return cuda.libdevice.int_as_float(bits)


def for_cuda(arithmetic: types.ModuleType, **callees: Any) -> types.SimpleNamespace:
    """The functions of an arithmetic module for kernels; `callees` are those that it imports, made for CUDA."""
    return retarget(arithmetic, cuda_function, fma=fma, bits_of=bits_of, float_of=float_of, **callees)


def compile_for_current_device(function: Callable, signature: Any, block: int) -> Any:
    """A dispatcher with the one signature; compiles, or loads from the cache, at once. Needs a current CUDA context."""
    with caching_into_our_folder(cuda_config):
        return cuda.jit(signature, launch_bounds=block, cache=cache_directory() is not None)(function)


def has_compiler() -> bool:
    """Whether libnvvm, which turns kernels into PTX, can be loaded."""
    from numba.cuda.cudadrv import nvvm

    return bool(nvvm.is_available())


def configure(dispatcher: Any, grid: tuple[int, ...], block: int, stream: int) -> Any:
    """`dispatcher` set up to launch on the CUDA stream with the handle `stream`. Small grids are no mistake here."""
    warn = cuda_config.CUDA_LOW_OCCUPANCY_WARNINGS
    cuda_config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    try:
        return dispatcher[grid, block, cuda.external_stream(stream)]
    finally:
        cuda_config.CUDA_LOW_OCCUPANCY_WARNINGS = warn


def view(pointer: int, shape: tuple[int, ...], kind: str) -> Any:
    """A contiguous device array over memory that torch owns; it neither synchronises nor orders streams."""
    interface = {"shape": shape, "typestr": kind, "data": (pointer, False), "strides": None, "version": 2}
    return cuda.from_cuda_array_interface(interface, owner=None, sync=False)
