"""Adam (Kingma, Ba 2015, arXiv 1412.6980) on the flat buffer with one row of hyperparameters per member.

Clip, finiteness and Adam state are per member: one that turns non-finite is frozen where it stands and the others go on
as if it were not there. The powers of the betas are running products in slots, so a step needs no host number.
"""

from __future__ import annotations

import torch

import numba_kernels as nk
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


def coefficients(signals: Signals, factor: torch.Tensor) -> torch.Tensor:
    """float32 `[P, 7]` as `numba_kernels.adam_step` takes them; `factor` `[P]` scales the gradient."""
    step = signals["learning_rate"] / (1.0 - signals["adam_beta1_power"])
    correction = 1.0 / (1.0 - signals["adam_beta2_power"])
    beta1, beta2, epsilon = (signals[f"adam_{name}"] for name in ("beta1", "beta2", "epsilon"))
    return torch.stack((factor, step, beta1, beta2, correction, epsilon, signals["target_rate"]), 1)


def adam(
    params: torch.Tensor,
    target: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    signals: Signals,
    counters: Counters,
    factor: torch.Tensor,
    alive: torch.Tensor,
    used: int,
) -> None:
    """One Adam step and one Polyak step of the target network, in place on `[P, total]` buffers.

    `factor` `[P]` is the clip factor; `used` the length of the rows that trains. Members not `alive` (bool `[P]`) keep
    every bit.
    """
    for power, beta in (("adam_beta1_power", "adam_beta1"), ("adam_beta2_power", "adam_beta2")):
        signals[power].copy_(torch.where(alive, signals[power] * signals[beta], signals[power]))
    counters["adam_steps"].add_(alive.long())
    nk.adam_step(gradient, coefficients(signals, factor), alive.int(), params, first, second, target, used)
