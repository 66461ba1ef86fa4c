"""Declared kernel arguments: one text says what a kernel takes, and is what its callers are checked against.

A compiled kernel with a fixed signature does not look at what it is given: a float64 tensor or a strided one would
be read as if it were what the kernel expects. So every call is checked here first.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
from numba.core import types

TORCH_TYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,  # kernels read its bits as uint16
    "int8": torch.int8,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint64": torch.int64,  # the tensor is int64; the kernel reads its bits as unsigned
}
NUMPY_KINDS = {
    "float32": "<f4",
    "float64": "<f8",
    "bfloat16": "<u2",
    "int8": "|i1",
    "int32": "<i4",
    "int64": "<i8",
    "uint64": "<u8",
}


class ArgumentError(ValueError):
    """A kernel was called with something it cannot take; the message names kernel(argument) and what it wants."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One tensor argument. `sizes` holds a symbol or a number per axis; an empty one marks a scalar.

    `strided`: lanes may lie apart, as in a view of one tensor inside flat rows; within a lane it is contiguous. Kernels
    and CPU twins see a plain matrix, a row a lane, as long as lanes lie apart: its width says nothing, and no entry
    beyond the lane's own may be touched.
    """

    name: str
    kind: str
    sizes: tuple[str | int, ...]
    strided: bool = False

    @property
    def is_tensor(self) -> bool:
        return bool(self.sizes)

    @property
    def numba_type(self) -> types.Type:
        scalar = getattr(types, "uint16" if self.kind == "bfloat16" else self.kind)
        axes = 2 if self.strided else len(self.sizes)
        return types.Array(scalar, axes, "C") if self.is_tensor else scalar

    def fits(self, strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
        """Whether entries lie where a kernel with this argument looks for them, given strides in entries."""
        wanted = 1
        for axis in range(len(shape) - 1, -1, -1):
            if self.strided and axis == 0:
                return strides[0] >= wanted or shape[0] <= 1
            if shape[axis] != 1 and strides[axis] != wanted:
                return 0 in shape
            wanted *= shape[axis]
        return True

    def describe(self) -> str:
        return f"{str(TORCH_TYPES[self.kind]).removeprefix('torch.')}[{', '.join(map(str, self.sizes))}]"


def declare(text: str) -> tuple[Argument, ...]:
    """Arguments from text such as "x: float32[P, B, 7], row: float32[P:, N], step: uint64"; P: marks a strided one."""
    found = re.findall(r"(\w+): (\w+)(?:\[([^]]*)\])?", text)
    return tuple(
        Argument(name, kind, tuple(int(s) if s.isdigit() else s for s in re.findall(r"[\w+]+", sizes)), ":" in sizes)
        for name, kind, sizes in found
    )


def lanes_apart(tensor: torch.Tensor) -> int:
    """Entries from one lane of a strided argument to the next; of a single lane, whose stride says nothing, its own."""
    return tensor.stride(0) if tensor.shape[0] > 1 else tensor.numel()


def prefix(count: int | None, row: torch.Tensor) -> int:
    """How many entries of the rows `row` `[P, T]` are meant; kernels take them two at a time.

    Errors: ArgumentError when there are not so many, or an odd number.
    """
    total = row.shape[-1]
    count = total if count is None else count
    if not 0 <= count <= total or count % 2 or total % 2:
        raise ArgumentError(f"count: {count} of rows of {total} entries; both must be even, and rows long enough")
    return count


def check_tensors(kernel: str, arguments: tuple[Argument, ...], values: tuple[Any, ...]) -> torch.device:
    """Checks type, dtype, contiguity, gradient flag and device of each tensor, and returns the device they share."""
    if len(values) != len(arguments):
        names = ", ".join(a.name for a in arguments)
        raise ArgumentError(f"{kernel}: {len(values)} arguments given, {len(arguments)} wanted: {names}")
    device: torch.device | None = None
    for argument, value in zip(arguments, values, strict=True):
        if not argument.sizes:
            continue
        if not isinstance(value, torch.Tensor):
            raise ArgumentError(
                f"{kernel}({argument.name}): {type(value).__name__}, wants a tensor {argument.describe()}"
            )
        if (
            value.dtype is not TORCH_TYPES[argument.kind]
            or value.requires_grad
            or value.dim() != len(argument.sizes)
            or not (value.is_contiguous() or (argument.strided and argument.fits(value.stride(), value.shape)))
        ):
            raise ArgumentError(f"{kernel}({argument.name}): {_fault(argument, value)}")
        if device is None:
            device = value.device
        elif value.device != device:
            raise ArgumentError(f"{kernel}({argument.name}): on {value.device}, the first argument is on {device}")
    assert device is not None
    return device


def _fault(argument: Argument, value: torch.Tensor) -> str:
    if value.dtype is not TORCH_TYPES[argument.kind]:
        return f"dtype {str(value.dtype).removeprefix('torch.')}, wants {argument.describe()}"
    if value.requires_grad:
        return "requires a gradient, which kernels do not track; pass tensor.detach()"
    if value.dim() != len(argument.sizes):
        return f"{value.dim()} axes, wants {argument.describe()}"
    if argument.strided:
        return "its lanes are not contiguous in themselves; pass tensor.contiguous()"
    return "not contiguous; pass tensor.contiguous(), or for an output keep a contiguous buffer"


def check_shapes(kernel: str, arguments: tuple[Argument, ...], values: tuple[Any, ...]) -> dict[str, int]:
    """Checks the sizes among one another and returns the size that each symbol stands for."""
    known: dict[str, int] = {}
    for argument, value in zip(arguments, values, strict=True):
        if not argument.sizes:
            continue
        for axis, (symbol, size) in enumerate(zip(argument.sizes, value.shape, strict=True)):
            wanted = symbol if isinstance(symbol, int) else known.setdefault(symbol, size)
            if size != wanted:
                reason = f"axis {axis} has {size} entries, {wanted} wanted ({symbol} in {argument.describe()})"
                raise ArgumentError(f"{kernel}({argument.name}): shape {list(value.shape)}: {reason}")
    return known
