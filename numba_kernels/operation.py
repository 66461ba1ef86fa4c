"""A public operation of this package: checks its arguments and runs where its tensors live."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba.core import types

from .argument import Argument, ArgumentError, check_shapes, check_tensors
from .cache import one_compiler_at_a_time
from .launch import CudaKernel, Launch

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

    def __call__(self, *values: Any) -> None:
        device = self.check(values)
        if device.type == "cpu":
            (self._compiled or self.compile_cpu())(*self.views(values))
        elif device.type == "cuda":
            for launch in self.launches(*values):
                launch.run(device.index)
        else:
            raise ArgumentError(f"{self.name}: tensors on {device}; kernels run on cpu and cuda")

    def check(self, values: tuple[Any, ...]) -> torch.device:
        """The device of the tensors, or ArgumentError."""
        device = check_tensors(self.name, self.arguments, values)
        shapes = tuple([v.shape for v in values if isinstance(v, torch.Tensor)])
        if shapes not in self._checked:
            sizes = check_shapes(self.name, self.arguments, values)
            if self.require is not None:
                self.require(sizes)
            if len(self._checked) >= CHECKED_SHAPES:
                self._checked.clear()
            self._checked.add(shapes)
        return device

    def views(self, values: tuple[Any, ...]) -> list[Any]:
        """numpy views of CPU tensors, typed as the kernels want them."""
        arrays = [v.numpy() if isinstance(v, torch.Tensor) else v for v in values]
        for i in self._unsigned:
            arrays[i] = arrays[i].view(np.uint64)
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
