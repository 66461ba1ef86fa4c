"""Bootstrapped heads (Osband et al. 2016, arXiv 1602.04621): their loss, their targets and what they disagree about.

A head sees the part of the replay that its mask keeps and bootstraps from its own target, so that the heads differ
where data is thin. The difference is explored and recorded. It is no loss: minimising it would make all heads one.
"""

from __future__ import annotations

import math

import torch

from trainer.losses.branches import FLAT, Loss, outputs_of, put, take, uncounted
from trainer.params import DIRECTIONS

DELTA = 1.0  # where the Huber loss turns from quadratic to linear


def next_values(online: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Value `[P, B, heads]` of the next state for each head: double DQN (van Hasselt et al. 2016, 1509.06461) by head.

    `online` and `target` `[P, B, heads, 6]`: a head's online values choose the action of each branch, its target values
    judge it. The mean of the branches, or the direction alone where that head's direction is flat.
    """
    direction, magnitude = online[..., :DIRECTIONS].argmax(-1), online[..., DIRECTIONS:].argmax(-1)
    of_direction, of_magnitude = take(target, outputs_of(direction, magnitude)).unbind(-1)
    return torch.where(direction == FLAT, of_direction, 0.5 * (of_direction + of_magnitude))


def ensemble_loss(
    values: torch.Tensor,
    direction: torch.Tensor,
    magnitude: torch.Tensor,
    target: torch.Tensor,
    mask: torch.Tensor,
    weight: torch.Tensor,
) -> Loss:
    """sum_b weight_b / B * mean over branches and heads of the Huber loss (delta 1) to the head's own target.

    `values` `[P, B, heads, 6]`, action int64 `[P, B]`, `target` and `mask` (0 or 1) `[P, B, heads]`, `weight` `[P, B]`.
    The mean divides by all heads and not by those whose mask is 1: a head's step then never depends on the masks of the
    others, its gradient stays that of its own bootstrap sample, and a sample kept by no head is 0 and not 0/0. The
    magnitude's half is 0 where the direction taken is flat.
    """
    heads = values.shape[2]
    action = outputs_of(direction, magnitude).unsqueeze(2).expand(*values.shape[:3], 2)
    error = take(values, action) - target.unsqueeze(-1)
    clipped = error.clamp(-DELTA, DELTA)
    share = (0.5 / (direction.shape[1] * heads)) * weight[..., None, None]
    masked = uncounted(direction).unsqueeze(2) | (mask == 0).unsqueeze(-1)
    value = (share * clipped * (error - 0.5 * clipped)).masked_fill(masked, 0.0).flatten(1).sum(1)
    return Loss(value, put(values, action, (share * clipped).masked_fill(masked, 0.0)))


def jensen_shannon(log_p: torch.Tensor) -> torch.Tensor:
    """mean_k KL(p_k || mean of the p) in nats `[...]`, for log-probabilities `[..., heads, actions]`."""
    log_mean = torch.logsumexp(log_p, -2, keepdim=True) - math.log(log_p.shape[-2])
    return (log_p.exp() * (log_p - log_mean)).sum(-1).mean(-1)


def disagreement(values: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence of the heads' policies softmax(Q / temperature), in [0, 1], mean of the branches.

    `values` `[P, N, heads, 6]`, `temperature` `[P]`; result `[P, N]`. It is divided by log(heads), its largest value,
    which heads that choose disjoint actions reach.
    """
    scaled = values / temperature[:, None, None, None]
    of_direction = jensen_shannon(torch.log_softmax(scaled[..., :DIRECTIONS], -1))
    of_magnitude = jensen_shannon(torch.log_softmax(scaled[..., DIRECTIONS:], -1))
    return ((of_direction + of_magnitude) / (2.0 * math.log(values.shape[2]))).clamp(0.0, 1.0)


def deviation(values: torch.Tensor) -> torch.Tensor:
    """Standard deviation over the heads (ddof 0) `[P, B, 6]` of `values` `[P, B, heads, 6]`: the exploration bonus."""
    centred = values - values.mean(2, keepdim=True)
    return (centred * centred).mean(2).sqrt()
