"""Adam (Kingma, Ba 2015, arXiv 1412.6980) on the flat buffer with one row of hyperparameters per member.

Clip, finiteness and Adam state are per member: one that turns non-finite is frozen where it stands and the others go on
as if it were not there. The powers of the betas are running products in slots, so a step needs no host number.
"""

from __future__ import annotations

import torch

from trainer.signals import Counters, Signals


def clip_factor(norm: torch.Tensor, clip_norm: torch.Tensor) -> torch.Tensor:
    """min(1, clip / norm) `[P]`; 1 for a zero norm."""
    return torch.where(norm > clip_norm, clip_norm / norm, torch.ones_like(norm))


def freeze(counters: Counters, norm: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    """bool `[P]`: members that may still learn. Notes the update at which one first lost a finite gradient or loss."""
    frozen_at = counters["frozen_at"]
    broken = ~(torch.isfinite(norm) & torch.isfinite(loss))
    frozen_at.copy_(torch.where(broken & (frozen_at < 0), counters["updates"], frozen_at))
    return frozen_at < 0


def adam(
    params: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    signals: Signals,
    counters: Counters,
    factor: torch.Tensor,
    alive: torch.Tensor,
) -> None:
    """One step in place on `[P, total]` buffers; `factor` scales the gradient, members not `alive` keep every bit."""
    beta1, beta2 = signals["adam_beta1"], signals["adam_beta2"]
    for power, beta in (("adam_beta1_power", beta1), ("adam_beta2_power", beta2)):
        signals[power].copy_(torch.where(alive, signals[power] * beta, signals[power]))
    counters["adam_steps"].add_(alive.long())
    lane = alive[:, None]
    clipped = gradient * factor[:, None]
    first.copy_(torch.where(lane, torch.lerp(clipped, first, beta1[:, None]), first))
    second.copy_(torch.where(lane, torch.lerp(clipped * clipped, second, beta2[:, None]), second))
    correction1 = 1.0 - signals["adam_beta1_power"]
    correction2 = 1.0 - signals["adam_beta2_power"]
    denominator = (second / correction2[:, None]).sqrt_().add_(signals["adam_epsilon"][:, None])
    step = (signals["learning_rate"] / correction1)[:, None] * first / denominator
    params.copy_(torch.where(lane, params - step, params))


def follow(target: torch.Tensor, params: torch.Tensor, rate: torch.Tensor, alive: torch.Tensor) -> None:
    """Polyak average: target += rate (params - target), for members that are `alive`."""
    target.copy_(torch.where(alive[:, None], target + rate[:, None] * (params - target), target))
