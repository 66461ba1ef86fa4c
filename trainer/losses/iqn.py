"""Quantile Huber loss of the implicit quantile head (Dabney et al. 2018, arXiv 1806.06923) for two branches.

The actor's greedy next action is evaluated by the target network's quantiles. Both branches learn one target, the
mixture of the two next-state branch distributions: with as many quantiles from each, their union. Where the next
direction is flat it is the direction's distribution alone, as in the categorical loss.
"""

from __future__ import annotations

import torch

from trainer.losses.branches import FLAT, Loss, outputs_of, put, take, uncounted


def quantile_huber(
    values: torch.Tensor, tau: torch.Tensor, target: torch.Tensor, kappa: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """L = (1/M) sum_i sum_j |tau_i - 1{d_ij < 0}| H_kappa(d_ij) / kappa, d_ij = target_j - value_i (the paper's eq. 3).

    `values` `[..., N]` at the levels `tau` `[..., N]`, `target` `[..., M]`: the sum runs over the online quantiles, the
    mean over the target's. H_kappa(d) is d^2 / 2 up to |d| = kappa and kappa (|d| - kappa / 2) beyond. Divided by kappa
    it tends to the plain quantile loss as kappa falls to 0. Returns L `[...]` and dL/dvalues `[..., N]`.
    """
    difference = target.unsqueeze(-2) - values.unsqueeze(-1)
    clipped = difference.clamp(-kappa, kappa)  # H_kappa(d) = c (d - c / 2) and H_kappa'(d) = c with c = clip(d)
    level, unit = tau.unsqueeze(-1), clipped / kappa
    slope = level * unit.clamp_min(0.0) + (1.0 - level) * unit.clamp_max(0.0)  # one side is 0; faster than a choice
    loss = (slope * (difference - 0.5 * clipped)).flatten(-2).sum(-1) / target.shape[-1]
    return loss, slope.sum(-1) / -target.shape[-1]


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

    `values` `[P, B, N, 6]` at `tau` `[P, B, N]`, action int64 `[P, B]`, `target` `[P, B, M]`, `weight` `[P, B]`. The
    magnitude's half is 0 where the direction taken is flat.
    """
    action = outputs_of(direction, magnitude).unsqueeze(2).expand(*values.shape[:3], 2)
    taken = take(values, action).transpose(2, 3)
    loss, d_taken = quantile_huber(taken, tau.unsqueeze(2), target.unsqueeze(2), kappa)
    share, masked = (0.5 / direction.shape[1]) * weight.unsqueeze(-1), uncounted(direction)
    value = (share * loss).masked_fill(masked, 0.0).flatten(1).sum(1)
    d_taken = (share.unsqueeze(-1) * d_taken).masked_fill(masked.unsqueeze(-1), 0.0)
    return Loss(value, put(values, action, d_taken.transpose(2, 3)))
