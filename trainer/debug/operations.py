"""Every operation that a stretch of training runs, torch's and our kernels', in order, as it happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

import numba_kernels as nk

ROOT = Path(__file__).resolve().parents[2]
SILENT = ("aten.view", "aten.slice", "aten.select", "aten.expand", "aten.detach", "aten.unsqueeze", "aten.squeeze",
          "aten.permute", "aten.transpose", "aten.t.", "aten._unsafe_view", "aten.alias", "aten.as_strided",
          "aten.split", "aten.unbind", "aten._reshape_alias", "aten.lift_fresh")  # fmt: skip  # they compute nothing


@dataclass(frozen=True)
class Operation:
    """One operation that has just run. `number`: from 0 since the watching began; `name`: `aten.bmm` or `kernel c51`;
    `place`: file:line and function of the trainer that asked for it; `inputs`, `outputs`: tensors by name, live ones:
    a look that wants to keep a value clones it. A kernel's outputs are all of its tensors, for it writes in place."""

    number: int
    name: str
    place: str
    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]

    @property
    def fills(self) -> bool:
        """Whether it hands out memory that nothing has been written to yet."""
        return self.name.startswith(("aten.empty", "aten.new_empty"))

    def __str__(self) -> str:
        return f"operation {self.number}, {self.name} in {self.place}"


Look = Callable[[Operation], None]


@contextmanager
def watched_operations(look: Look) -> Iterator[None]:
    """Calls `look` after every operation of the block, on this thread; eager code only, for a graph calls nothing.

    What `look` itself does is not watched.
    """
    mode = _Watch(look)
    with mode, nk.watched(mode.kernel):
        yield


class _Watch(TorchDispatchMode):
    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look, self._number = look, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = str(func).removesuffix(".default")
        if not f"{name}.".startswith(SILENT):
            # An in-place operation or one with out= names its result among its arguments too.
            self._tell(name, _named(_tensors((args, kwargs))), _named(_tensors(result)))
        return result

    def kernel(self, operation: nk.Operation, values: tuple[Any, ...]) -> None:
        """In place of the call of a kernel."""
        with _disable_current_modes():
            operation.run(values)
        named = zip((a.name for a in operation.arguments), values, strict=True)
        tensors = {name: value for name, value in named if isinstance(value, torch.Tensor)}
        self._tell(f"kernel {operation.name}", tensors, tensors)

    def _tell(self, name: str, inputs: dict[str, torch.Tensor], outputs: dict[str, torch.Tensor]) -> None:
        found = Operation(self._number, name, caller(), inputs, outputs)
        self._number += 1
        with _disable_current_modes():
            self._look(found)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _named(tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {str(number): tensor for number, tensor in enumerate(tensors)}


def caller() -> str:
    """`trainer/network.py:88 forward`: the innermost line of the trainer, this package apart, or of a user's gem."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        path = Path(frame.f_code.co_filename)
        if _is_training(path):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            return f"{shown}:{frame.f_lineno} {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "outside the trainer"


def _is_training(path: Path) -> bool:
    """Not a library, not a kernel's Python side, not the debugger."""
    if "site-packages" in path.parts or not path.is_absolute():
        return False
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT).parts[0] not in ("numba_kernels", "tests") and "debug" not in path.parts
    return not path.is_relative_to(Path(sys.base_prefix))
