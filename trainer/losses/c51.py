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
from trainer.network import action_values

FLAT = 1  # index of "flat" among the directions short, flat, long


def make_support(v_max: float, atoms: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Equally spaced atoms `[atoms]` on [-v_max, v_max]."""
    return torch.linspace(-v_max, v_max, atoms, device=device, dtype=dtype)


def select(per_action: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """`[P, B, A, K]` and int64 `[P, B]` -> the chosen action's `[P, B, K]`."""
    index = action[..., None, None].expand(*action.shape, 1, per_action.shape[-1])
    return per_action.gather(2, index).squeeze(2)


def next_distribution(
    direction_logits: torch.Tensor,
    magnitude_logits: torch.Tensor,
    target_direction_logits: torch.Tensor,
    target_magnitude_logits: torch.Tensor,
    support: torch.Tensor,
) -> torch.Tensor:
    """The target network's distribution `[P, B, K]` at the online network's greedy next action."""
    direction = action_values(direction_logits, support).argmax(-1)
    magnitude = action_values(magnitude_logits, support).argmax(-1)
    p_direction = torch.softmax(select(target_direction_logits, direction), -1)
    p_magnitude = torch.softmax(select(target_magnitude_logits, magnitude), -1)
    mixture = 0.5 * (p_direction + p_magnitude)
    return torch.where((direction == FLAT)[..., None], p_direction, mixture)


def project(p: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """Algorithm 1 in gather form: m_i = sum_j [1 - |clip(r + g z_j) - z_i| / dz]_0^1 p_j.

    `p` `[P, B, K]`; `reward` (n-step return) and `discount` (gamma^m, 0 after termination) `[P, B]`. Mass is kept when
    a shifted atom falls exactly on an atom or outside the support, because the hat functions sum to one everywhere.
    """
    out = torch.empty_like(p)
    nk.categorical_projection(p, reward, discount, support, out)
    return out


@dataclass(frozen=True)
class C51Loss:
    """`value` `[P]`: batch mean; the gradients are of that mean, `[P, B, A, K]`."""

    value: torch.Tensor
    direction_logits: torch.Tensor
    magnitude_logits: torch.Tensor


def _branch(logits: torch.Tensor, action: torch.Tensor, m: torch.Tensor, weight: torch.Tensor):
    """Cross-entropy of the taken action `[P, B]` and d(weight * it)/d logits."""
    chosen = torch.log_softmax(select(logits, action), -1)
    loss = -(m * chosen).sum(-1)
    gradient = torch.zeros_like(logits)
    index = action[..., None, None].expand(*action.shape, 1, logits.shape[-1])
    gradient.scatter_(2, index, ((chosen.exp() * m.sum(-1, keepdim=True) - m) * weight[..., None]).unsqueeze(2))
    return loss, gradient


def c51_loss(
    direction_logits: torch.Tensor,
    magnitude_logits: torch.Tensor,
    direction: torch.Tensor,
    magnitude: torch.Tensor,
    m: torch.Tensor,
) -> C51Loss:
    """Mean over branches and batch of -sum_i m_i log p_i(s, a); `direction`, `magnitude` int64 `[P, B]`."""
    batch = direction.shape[1]
    half = torch.full_like(m[..., 0], 0.5 / batch)
    active = half.masked_fill(direction == FLAT, 0.0)
    loss_d, grad_d = _branch(direction_logits, direction, m, half)
    loss_m, grad_m = _branch(magnitude_logits, magnitude, m, active)
    value = (half * loss_d + active * loss_m).sum(1)
    return C51Loss(value, grad_d, grad_m)
