"""Where a stored epoch and a recomputed one differ, named so that it can be looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.bits import first_unequal, ulps
from trainer.record.parts import Column

MEMBER = ("arm", "seed", "fold")
CLOCK = "clock/"


@dataclass(frozen=True)
class Difference:
    """One differing value. `member`: its arm, seed and fold; `index`: within the member's list or the tensor."""

    epoch: int
    what: str  # "column" or "tensor"
    name: str
    member: Mapping[str, Any]
    index: tuple[int, ...]
    stored: Any
    new: Any
    ulps: int | None = None

    def __str__(self) -> str:
        member = ", ".join(f"{name} {value}" for name, value in self.member.items())
        index = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        steps = "" if self.ulps is None else f" ({self.ulps} ulp{'' if self.ulps == 1 else 's'})"
        place = ", ".join(filter(None, [f"epoch {self.epoch}", member, f"{self.what} {self.name}{index}"]))
        return f"{place}: {self.stored} stored, {self.new} now{steps}"


def compare_columns(
    epoch: int, stored: Mapping[str, Column], new: Mapping[str, Column], *, first_only: bool
) -> tuple[int, list[Difference]]:
    """(numbers compared, differences) of two epochs: in order of the columns, then of the members.

    At most one difference a member and column. Text is compared but not counted; a column that only the new epoch has
    is not a stored number.
    """
    numbers, differences = 0, []
    for name, column in stored.items():
        if name.startswith(CLOCK):
            continue
        if _same(column, new.get(name)):
            numbers += len(column)
            continue
        for row, value in enumerate(column):
            if (found := _compare_entry(new.get(name), row, value)) is not None:
                differences.append(Difference(epoch, "column", name, _member(stored, row), *found))
                if first_only:
                    return numbers, differences
            numbers += 0 if isinstance(value, str) else np.size(value)
    rows, rows_now = (len(next(iter(columns.values()))) for columns in (stored, new))
    if rows != rows_now:
        differences.append(Difference(epoch, "column", "rows", {}, (), rows, rows_now))
    return numbers, differences


def _same(column: Column, new: Column | None) -> bool:
    """Whether two whole columns are equal: the common case, at the price of one comparison."""
    if not isinstance(column, np.ndarray):
        return False
    return isinstance(new, np.ndarray) and _compare_arrays(column, new) is None


def _compare_entry(column: Column | None, row: int, stored: Any) -> tuple[tuple[int, ...], Any, Any, int | None] | None:
    """(index, stored, new, ulps) of the first difference of one member's entry."""
    if column is None or row >= len(column):
        return (), _shown(stored), "nothing", None
    if isinstance(stored, str) or isinstance(column[row], str):
        return None if stored == column[row] else ((), repr(stored), repr(column[row]), None)
    return _compare_arrays(np.asarray(stored), np.asarray(column[row]))


def _compare_arrays(stored: np.ndarray, new: np.ndarray) -> tuple[tuple[int, ...], Any, Any, int | None] | None:
    if (stored.dtype, stored.shape) != (new.dtype, new.shape):
        return (), _shown(stored), _shown(new), None
    index = first_unequal(stored, new)
    return None if index is None else (index, stored[index], new[index], ulps(stored[index], new[index]))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value)
    array = np.asarray(value)
    return f"{array.dtype} {array}" if array.ndim == 0 else f"{array.dtype} of shape {list(array.shape)}"


def _member(columns: Mapping[str, Column], row: int) -> dict[str, Any]:
    named = {name: columns[name][row] for name in MEMBER if name in columns}
    return {name: value if isinstance(value, str) else int(value) for name, value in named.items()} or {"row": row}


def compare_tensors(
    epoch: int, stored: Mapping[str, Any], new: Mapping[str, Any], members: Mapping[str, Column]
) -> tuple[int, list[Difference]]:
    """(values compared, differences) of two checkpoints; at most one difference a tensor, in order of their names.

    `members`: the epoch's columns; a tensor of one row per member names the member of the difference.
    """
    count = len(next(iter(members.values())))
    numbers, differences = 0, []
    for name in sorted(stored):
        before = _array(stored[name])
        after = _array(new[name]) if name in new else None
        found = ((), _shown(before), "nothing", None) if after is None else _compare_arrays(before, after)
        if found is not None:
            row = found[0][0] if found[0] and before.shape[0] == count else None
            member = {} if row is None else _member(members, row)
            differences.append(Difference(epoch, "tensor", name, member, *found))
        numbers += before.size
    return numbers, differences


def _array(tensor: Any) -> np.ndarray:
    """Numpy view of a tensor; bfloat16, which numpy lacks, as its bits in int16."""
    if isinstance(tensor, np.ndarray):
        return tensor
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        import torch

        tensor = tensor.view(torch.int16)
    return tensor.numpy()
