"""Categorical distributional loss (Bellemare, Dabney, Munos 2017, arXiv 1707.06887) for two branches.

Double DQN: the online network chooses the next action of each branch, the target network evaluates it. Both branches
learn the same target, the projected mixture of the two next-state branch distributions: the mixture has the mean that
Tavakoli et al. found best for branching (arXiv 1711.08946) and stays a distribution. Where the next direction is flat
the magnitude has no meaning, so the direction branch stands alone there; where the direction taken is flat, the
magnitude branch is not trained on that sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

import numba_kernels as nk
from trainer.network import Activations
from trainer.replay import Batch


def make_support(v_max: float, atoms: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Equally spaced atoms `[atoms]` on [-v_max, v_max]."""
    return torch.linspace(-v_max, v_max, atoms, device=device, dtype=dtype)


@dataclass(frozen=True)
class C51Loss:
    """What the loss says of a batch.

    `value` `[P]` is the weighted batch mean, `sample` `[P, B]` each sample's loss before its weight, `streams` `[P, B,
    W]` the gradient of `value` at the outputs of the heads. `priority` `[P, B]` is the sum of KL(m || p) over the
    branches counted: Rainbow's priority (arXiv 1710.02298), summed as Tavakoli et al. sum |error|. It is never
    negative, so branches that err in opposite directions cannot cancel. `next_direction` and `next_magnitude` int64
    `[P, B]` are the greedy choices of the online network in the bootstrap state.
    """

    value: torch.Tensor
    sample: torch.Tensor
    priority: torch.Tensor
    next_direction: torch.Tensor
    next_magnitude: torch.Tensor
    streams: torch.Tensor


def c51_loss(online: Activations, valued: Activations, batch: Batch, support: torch.Tensor) -> C51Loss:
    """sum_b weight_b / B * mean over branches of -sum_i m_i log p_i(s, a), the magnitude's half 0 where flat was taken.

    `online` holds the batch's states and then their bootstrap states `[P, 2B, ...]` seen by the online network,
    `valued` the bootstrap states seen by the target network; `support` `[P, K]`, each member's own.
    """
    action, like = batch.direction, batch.weight
    sample, priority, streams = torch.empty_like(like), torch.empty_like(like), torch.empty_like(valued.streams)
    next_direction, next_magnitude = torch.empty_like(action), torch.empty_like(action)
    outputs = (sample, priority, next_direction, next_magnitude, streams)
    states = (online.streams, online.offset, valued.streams, valued.offset)
    nk.c51(*states, action, batch.magnitude, batch.returns, batch.discount, batch.weight, support, *outputs)
    return C51Loss((sample * batch.weight).mean(1), *outputs)
