"""Bootstrapped heads (Osband et al. 2016, arXiv 1602.04621): their loss, their targets and what they disagree about.

A head sees the part of the replay that its mask keeps and bootstraps from its own target, so that the heads differ
where data is thin. The difference is explored and recorded. It is no loss: minimising it would make all heads one.
"""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.losses.branches import Loss


def ensemble_loss(
    values: torch.Tensor,
    chosen: torch.Tensor,
    valued: torch.Tensor,
    direction: torch.Tensor,
    magnitude: torch.Tensor,
    returns: torch.Tensor,
    discount: torch.Tensor,
    weight: torch.Tensor,
    keep: torch.Tensor,
    place: torch.Tensor,
) -> Loss:
    """sum_b weight_b / B * mean over branches and heads of the Huber loss (delta 1) to the head's own target.

    `values`, and of the bootstrap state `chosen` (online) and `valued` (target network), float32 `[P, B, heads, 6]`:
    double DQN (van Hasselt et al. 2016, 1509.06461) by head. Action, and `place` in the replay, int64 `[P, B]`; n-step
    `returns`, `discount` (0 after termination) and `weight` `[P, B]`; `keep` bool `[P, places, heads]`.

    The mean divides by all heads and not by those that keep the sample: a head's step then never depends on the masks
    of the others, its gradient stays that of its own bootstrap sample, and a sample kept by no head is 0 and not 0/0.
    The magnitude's half is 0 where the direction taken is flat.
    """
    loss, d_values = values.new_empty(values.shape[:3]), torch.empty_like(values)
    state, step = (values, chosen, valued, direction, magnitude), (returns, discount, weight)
    nk.ensemble_huber(*state, *step, keep.view(torch.int8), place, loss, d_values)
    return Loss(loss.flatten(1).sum(1), d_values)


def disagreement(values: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence of the heads' policies softmax(Q / temperature), in [0, 1], mean of the branches.

    `values` float32 `[P, N, heads, 6]`, `temperature` `[P]`; result `[P, N]`. It is divided by log(heads), its largest
    value, which heads that choose disjoint actions reach.
    """
    found = values.new_empty(values.shape[:2])
    nk.ensemble_divergence(values, temperature.contiguous(), found)
    return found


def deviation(values: torch.Tensor) -> torch.Tensor:
    """Standard deviation over the heads (ddof 0) `[P, B, 6]` of `values` `[P, B, heads, 6]`: the exploration bonus."""
    centred = values - values.mean(2, keepdim=True)
    return (centred * centred).mean(2).sqrt()
