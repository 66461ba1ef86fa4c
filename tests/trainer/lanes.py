"""What a packed function owes its members: the same bits in a pack of any size, whatever the other members hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Tensors = Sequence[torch.Tensor]


def assert_members_independent(function: Callable[..., Tensors], *inputs: torch.Tensor) -> None:
    """`function(*inputs)` gives tensors; inputs and results have the member on axis 0, at least three of them."""
    together = function(*inputs)
    for p in range(len(inputs[0])):
        alone = function(*(x[p : p + 1] for x in inputs))
        for index, (pack, single) in enumerate(zip(together, alone, strict=True)):
            assert torch.equal(pack[p : p + 1], single), f"member {p}, result {index}"
    for index, x in enumerate(inputs):
        if not x.is_floating_point():
            continue
        spoiled = x.clone()
        spoiled[1] = float("nan")
        after = function(*inputs[:index], spoiled, *inputs[index + 1 :])
        for before, now in zip(together, after, strict=True):
            assert torch.equal(before[[0, 2]], now[[0, 2]]), f"NaN in input {index} of member 1 reached another"
        assert any(now[1].isnan().any() for now in after), f"NaN in input {index} left no trace"
