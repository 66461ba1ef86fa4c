"""Operations on bfloat16 tensors: what their float32 siblings compute, the results rounded once on the way out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from .argument import Argument, ArgumentError
from .operation import Operation


def narrow_arguments(arguments: tuple[Argument, ...], names: set[str]) -> tuple[Argument, ...]:
    """`arguments` with those named in bfloat16."""
    return tuple(dataclasses.replace(a, kind="bfloat16") if a.name in names else a for a in arguments)


@dataclasses.dataclass(eq=False)
class NarrowedOperation(Operation):
    """`wide` on bfloat16 tensors. Its CPU twin is that of `wide` on float32 copies, so the arithmetic has one source;
    kernels widen what they load and round what they store."""

    wide: Operation | None = None

    def run_cpu(self, values: tuple[Any, ...]) -> None:
        assert self.wide is not None
        narrow = [i for i, a in enumerate(self.arguments) if a.kind == "bfloat16"]
        widened = [v.float().contiguous() if i in narrow else v for i, v in enumerate(values)]
        self.wide(*widened)
        for i in narrow:  # what was only read comes back as it was
            values[i].copy_(widened[i])

    def compile_cpu(self) -> Any:
        assert self.wide is not None
        return self.wide.compile_cpu()


def even_columns(what: str) -> Callable[[dict[str, int]], None]:
    """Refuses an odd number of columns N: kernels take two neighbours at a time."""

    def require(sizes: dict[str, int]) -> None:
        if sizes["N"] % 2:
            raise ArgumentError(f"{what}: {sizes['N']} columns of bfloat16; their number must be even")

    return require


def is_narrow(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.bfloat16
