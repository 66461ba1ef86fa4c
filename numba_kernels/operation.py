"""A public operation of this package: checks its arguments and runs where its tensors live."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numba.core import types
from numpy.lib.stride_tricks import as_strided

from .argument import TORCH_TYPES, Argument, ArgumentError, check_shapes, check_tensors, lanes_apart
from .cache import one_compiler_at_a_time
from .launch import CudaKernel, Launch

Watcher = Callable[["Operation", tuple[Any, ...]], None]
_watchers: list[Watcher] = []
CHECKED_SHAPES = 512  # remembered combinations of shapes; a pack uses a handful


@dataclasses.dataclass(eq=False)
class Operation:
    """`cpu` is the CPU twin, taking `arguments` in order; `launches(*tensors)` lists the CUDA launches that do the
    same.

    `require(sizes)` may raise ArgumentError for sizes that make no sense to the kernel.
    """

    name: str
    arguments: tuple[Argument, ...]
    cpu: Any
    launches: Callable[..., list[Launch]]
    kernels: tuple[CudaKernel, ...]
    require: Callable[[dict[str, int]], None] | None = None
    _checked: set[tuple] = dataclasses.field(default_factory=set)
    _compiled: Any = None

    @functools.cached_property
    def cpu_signature(self) -> Any:
        return types.void(*[a.numba_type for a in self.arguments])

    @functools.cached_property
    def _unsigned(self) -> frozenset[int]:
        return frozenset(i for i, a in enumerate(self.arguments) if a.kind == "uint64" and a.is_tensor)

    @functools.cached_property
    def _strided(self) -> tuple[int, ...]:
        return tuple(i for i, a in enumerate(self.arguments) if a.strided)

    def __call__(self, *values: Any) -> None:
        if _watchers:
            _watchers[-1](self, values)
        else:
            self.run(values)

    def run(self, values: tuple[Any, ...]) -> None:
        """Check the arguments and run where the tensors live."""
        device = self.check(values)
        if device.type == "cpu":
            self.run_cpu(values)
        elif device.type == "cuda":
            for launch in self.launches(*values):
                launch.run(device.index)
        else:
            raise ArgumentError(f"{self.name}: tensors on {device}; kernels run on cpu and cuda")

    def run_cpu(self, values: tuple[Any, ...]) -> None:
        (self._compiled or self.compile_cpu())(*self.views(values))

    def check(self, values: tuple[Any, ...]) -> torch.device:
        """The device of the tensors, or ArgumentError."""
        device = self._plain(values) or check_tensors(self.name, self.arguments, values)
        shapes = tuple([v.shape for v in values if isinstance(v, torch.Tensor)])
        if shapes not in self._checked:
            sizes = check_shapes(self.name, self.arguments, values)
            if self.require is not None:
                self.require(sizes)
            if len(self._checked) >= CHECKED_SHAPES:
                self._checked.clear()
            self._checked.add(shapes)
        return device

    def _plain(self, values: tuple[Any, ...]) -> torch.device | None:
        """The device when every tensor is at a glance what it should be; None: look closer. Called dozens of times a
        step, so it asks as little as it can."""
        if len(values) != len(self.arguments):
            return None
        device = None
        for i, dtype, axes, strided in self._expected:
            value = values[i]
            if type(value) is not torch.Tensor or value.dtype is not dtype or value.requires_grad:
                return None
            if value.dim() != axes or not (value.is_contiguous() or (strided and self._fits(i, value))):
                return None
            if device is None:
                device = value.device
            elif value.device != device:
                return None
        return device

    def _fits(self, index: int, value: torch.Tensor) -> bool:
        return self.arguments[index].fits(value.stride(), value.shape)

    @functools.cached_property
    def _expected(self) -> tuple[tuple[int, torch.dtype, int, bool], ...]:
        named = [(i, a) for i, a in enumerate(self.arguments) if a.is_tensor]
        return tuple((i, TORCH_TYPES[a.kind], len(a.sizes), a.strided) for i, a in named)

    def views(self, values: tuple[Any, ...]) -> list[Any]:
        """numpy views of CPU tensors, typed as the kernels want them."""
        arrays = [_array(v) if isinstance(v, torch.Tensor) else v for v in values]
        for i in self._unsigned:
            arrays[i] = arrays[i].view(np.uint64)
        for i in self._strided:
            apart = lanes_apart(values[i])
            strides = (apart * arrays[i].itemsize, arrays[i].itemsize)
            arrays[i] = as_strided(arrays[i], (len(arrays[i]), apart), strides)
        return arrays

    def compile_cpu(self) -> Any:
        """The CPU twin's machine code for its one signature, compiled or loaded from the cache.

        The entry point is called directly. numba's dispatcher would guess types from the values (a Python int as
        int64 where the signature says uint64) and quietly compile a second version for them; the arguments are
        checked already.
        """
        if self._compiled is None:
            with one_compiler_at_a_time():
                self.cpu.compile(self.cpu_signature)
            self.cpu.disable_compile()
            self._compiled = self.cpu.overloads[self.cpu_signature.args].entry_point
        return self._compiled

    def warm(self, device: torch.device) -> float:
        """Seconds spent on making this operation ready on `device`."""
        start = time.perf_counter()
        if device.type == "cpu":
            self.compile_cpu()
        else:
            for kernel in self.kernels:
                kernel.specialise(device.index or 0)
        return time.perf_counter() - start


@contextlib.contextmanager
def watched(by: Watcher) -> Iterator[None]:
    """Calls of operations go to `by(operation, values)` instead, which is to call `operation.run(values)`. For
    debugging: not captured graphs, which call nothing. Nested, the innermost watches alone."""
    _watchers.append(by)
    try:
        yield
    finally:
        _watchers.remove(by)


def _array(tensor: torch.Tensor) -> np.ndarray:
    """numpy has no bfloat16: its bits."""
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype is torch.bfloat16 else tensor.numpy()
