"""CUDA kernels with one signature each, and launches of them on torch's current stream."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from numba.core import types

from . import cuda_target
from .argument import NUMPY_KINDS, Argument, lanes_apart
from .cache import one_compiler_at_a_time

MOST_BLOCKS = 65535  # of a grid's second and third axis
REMEMBERED_LAUNCHES = 256  # a training step binds a few dozen; beyond this the memory is emptied, never wrong


class LaunchError(RuntimeError):
    """A kernel could not be compiled or launched on the device; the message says what to do."""


@dataclasses.dataclass(eq=False)
class CudaKernel:
    """A kernel body, its arguments and its block size. `float64` marks the money kernels, the only ones allowed it."""

    body: Any
    arguments: tuple[Argument, ...]
    block: int
    float64: bool = False
    _compiled: dict[int, Any] = dataclasses.field(default_factory=dict)
    _bound: dict[tuple, tuple[Any, list[Any]]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.body.py_func.__name__

    @property
    def signature(self) -> Any:
        return types.void(*[a.numba_type for a in self.arguments])

    def specialise(self, device: int) -> Any:
        """Compiles for one device or loads from the cache. Must have happened before a CUDA graph is captured."""
        compiled = self._compiled.get(device)
        if compiled is None:
            if torch.cuda.is_current_stream_capturing():
                raise LaunchError(f"{self.name} is not compiled yet: call warmup('cuda') before capturing a CUDA graph")
            with _current(device), one_compiler_at_a_time(), _plain_message_without_nvvm():
                compiled = cuda_target.compile_for_current_device(self.body.py_func, self.signature, self.block)
            self._compiled[device] = compiled
        return compiled

    def bind(self, device: int, grid: tuple[int, ...], stream: int, values: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """The configured kernel and views of the tensors.

        Remembered by address and shape. A view owns nothing, so an entry keeps no memory alive; and if another tensor
        of that shape comes to lie at that address, the same view is right for it, because dtype and layout are
        checked at each call.
        """
        key = (device, grid, stream, *map(_identity, values))
        bound = self._bound.get(key)
        if bound is None:
            configured = cuda_target.configure(self.specialise(device), grid, self.block, stream)
            bound = configured, [_view(a, v) for a, v in zip(self.arguments, values, strict=True)]
            if len(self._bound) >= REMEMBERED_LAUNCHES:
                self._bound.clear()
            self._bound[key] = bound
        return bound


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch: `grid` blocks of `kernel` over `values` (tensors and integers)."""

    kernel: CudaKernel
    grid: tuple[int, ...]
    values: tuple[Any, ...]

    def run(self, device: int) -> None:
        """Enqueues the launch on torch's current stream of `device`, where a capturing torch.cuda.graph records it."""
        if 0 in self.grid:
            return
        if max(self.grid[1:], default=0) > MOST_BLOCKS:
            raise LaunchError(
                f"{self.kernel.name}: a grid of {self.grid} blocks; CUDA takes {MOST_BLOCKS} on axes 1 and 2"
            )
        with _current(device):
            stream = torch.cuda.current_stream(device).cuda_stream
            configured, views = self.kernel.bind(device, self.grid, stream, self.values)
            configured(*views)


def _identity(value: Any) -> Any:
    return (value.data_ptr(), value.shape, value.stride()) if isinstance(value, torch.Tensor) else value


def _view(argument: Argument, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = (value.shape[0], lanes_apart(value)) if argument.strided else tuple(value.shape)
    return cuda_target.view(value.data_ptr(), shape, NUMPY_KINDS[argument.kind])


@contextlib.contextmanager
def _current(device: int) -> Iterator[None]:
    if device == torch.cuda.current_device():
        yield
    else:
        with torch.cuda.device(device), cuda_target.cuda.gpus[device]:
            yield


@contextlib.contextmanager
def _plain_message_without_nvvm() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not cuda_target.has_compiler():
            message = "a GPU is there but NVIDIA's compiler library libnvvm is not: pip install 'gemsweep[cuda]'"
            raise LaunchError(message) from error
        raise
