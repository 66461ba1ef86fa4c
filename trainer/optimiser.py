"""Adam (Kingma, Ba 2015, arXiv 1412.6980) on the flat buffer with one row of hyperparameters per member.

Clip, finiteness and Adam state are per member: one that turns non-finite is frozen where it stands and the others go on
as if it were not there. The powers of the betas are running products in slots, so a step needs no host number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

import numba_kernels as nk
from trainer.signals import Counters, Signals


@dataclass(frozen=True)
class Clip:
    """What the optimiser is told of a gradient: its `norm` float32 `[P]` before clip, the `factor` `[P]` that clips it,
    `alive` int32 `[P]`, 1 where the member may learn, and Adam's `coefficients` `[P, 7]`."""

    norm: torch.Tensor
    factor: torch.Tensor
    alive: torch.Tensor
    coefficients: torch.Tensor


def clip(norms: torch.Tensor, loss: torch.Tensor, signals: Signals, counters: Counters) -> Clip:
    """Clip factor min(1, clip / norm), and everything else that an update does with one number a member.

    `norms` `[P, slices]` of the gradient, `loss` `[P]`. Moves the running mean of applied norms, which a first finite
    norm starts; notes the update at which a member first lost a finite gradient or loss, and freezes it there; moves
    the beta powers and Adam's step count of those alive.
    """
    norm, factor = torch.empty_like(loss), torch.empty_like(loss)
    alive, coefficients = torch.empty_like(loss, dtype=torch.int32), loss.new_empty(len(loss), 7)
    tables = signals.table, counters.table, signals.places(nk.CLIP_SLOTS), counters.clip_columns
    nk.clip(norms, loss, *tables, norm, factor, alive, coefficients)
    return Clip(norm, factor, alive, coefficients)


def adam(
    params: torch.Tensor,
    target: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    clipped: Clip,
    used: int,
    low: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> None:
    """One Adam step and one Polyak step of the target network, in place on `[P, total]` buffers.

    `used` is the length of the rows that trains. Members not alive keep every bit. `low`: bfloat16 copies of the first
    params and targets, which follow.
    """
    moved = (params, first, second, target)
    nk.adam_step(gradient, clipped.coefficients, clipped.alive, *moved, used, *(low or (None, None)))
