"""Quantile Huber loss of the implicit quantile head (Dabney et al. 2018, arXiv 1806.06923) for two branches.

The actor's greedy next action is evaluated by the target network's quantiles. Both branches learn one target, the
mixture of the two next-state branch distributions: with as many quantiles from each, their union. Where the next
direction is flat it is the direction's distribution alone, as in the categorical loss.
"""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.losses.branches import FLAT, Loss, outputs_of, take


def next_quantiles(values: torch.Tensor, direction: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """The mixture's quantiles `[P, B, 2N]` at the greedy next action, int64 `[P, B]` each.

    `values` `[P, B, N, 6]` of the target network. First the direction's N quantiles, then the magnitude's; where the
    next direction is flat, the direction's once more.
    """
    action = outputs_of(direction, magnitude).unsqueeze(2).expand(*values.shape[:3], 2)
    of_direction, of_magnitude = take(values, action).unbind(-1)
    second = torch.where((direction == FLAT).unsqueeze(-1), of_direction, of_magnitude)
    return torch.cat((of_direction, second), -1)


def td_target(returns: torch.Tensor, discount: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """r + discount * next value `[P, B, M]`; n-step `returns` and `discount` (0 after termination) are `[P, B]`."""
    return returns.unsqueeze(-1) + discount.unsqueeze(-1) * following


def iqn_loss(
    values: torch.Tensor,
    tau: torch.Tensor,
    direction: torch.Tensor,
    magnitude: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    kappa: float = 1.0,
) -> Loss:
    """sum_b weight_b / B * mean over both branches of the quantile Huber loss of the action taken.

    `values` float32 `[P, B, N, 6]` at `tau` `[P, B, N]`, action int64 `[P, B]`, `target` `[P, B, M]`, `weight`
    `[P, B]`. The loss of a sample sums over the online quantiles and averages over the target's; the magnitude's half
    is 0 where the direction taken is flat. H_kappa(d) / kappa tends to the plain quantile loss as kappa falls to 0.
    """
    loss, d_values = torch.empty_like(tau), torch.empty_like(values)
    nk.quantile_huber(values, tau, target, direction, magnitude, weight, kappa, loss, d_values)
    return Loss(loss.flatten(1).sum(1), d_values)
