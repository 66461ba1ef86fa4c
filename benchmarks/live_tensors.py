"""Bytes of the tensors that are alive while a function runs, on any device: torch reports its own peak on CUDA only."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def storages(value: Any) -> dict[int, torch.UntypedStorage]:
    """The distinct storages that `value` reaches through dataclasses, mappings and sequences, by address."""
    return {s.data_ptr(): s for t in _tensors(value) if (s := t.untyped_storage()).nbytes()}


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "__dict__") and type(value).__module__.startswith("trainer."):  # Signals, Counters, Draws
        yield from _tensors(vars(value))


class LiveTensors(TorchDispatchMode):
    """Counts what is created inside and still alive. `peak`: the most bytes at any moment.

    What an operation allocates and frees within itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        self._known.update(tensor.untyped_storage()._cdata for tensor in given)  # what came from outside is not counted
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and not self._seen(tensor):
                self._count(tensor.untyped_storage())
        return out

    def _seen(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._known

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
