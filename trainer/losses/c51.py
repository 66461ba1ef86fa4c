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
from trainer.losses.branches import FLAT


def make_support(v_max: float, atoms: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Equally spaced atoms `[atoms]` on [-v_max, v_max]."""
    return torch.linspace(-v_max, v_max, atoms, device=device, dtype=dtype)


def select(per_action: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """`[P, B, A, K]` and int64 `[P, B]` -> the chosen action's `[P, B, K]`."""
    index = action[..., None, None].expand(*action.shape, 1, per_action.shape[-1])
    return per_action.gather(2, index).squeeze(2)


def next_distribution(
    direction_logits: torch.Tensor, magnitude_logits: torch.Tensor, direction: torch.Tensor, magnitude: torch.Tensor
) -> torch.Tensor:
    """The target network's distribution `[P, B, K]` at the online network's greedy next action.

    The logits `[P, B, A, K]` are the target network's, the action int64 `[P, B]` is of `trainer.explore.greedy`.
    """
    p_direction = torch.softmax(select(direction_logits, direction), -1)
    p_magnitude = torch.softmax(select(magnitude_logits, magnitude), -1)
    mixture = 0.5 * (p_direction + p_magnitude)
    return torch.where((direction == FLAT)[..., None], p_direction, mixture)


def project(p: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """Algorithm 1 in gather form: m_i = sum_j [1 - |clip(r + g z_j) - z_i| / dz]_0^1 p_j.

    `p` `[P, B, K]`; `reward` (n-step return) and `discount` (gamma^m, 0 after termination) `[P, B]`; `support`
    `[P, K]`, each member's own. Mass is kept when a shifted atom falls exactly on an atom or outside the support,
    because the hat functions sum to one everywhere.
    """
    out = torch.empty_like(p)
    nk.categorical_projection(p, reward, discount, support, out)
    return out


@dataclass(frozen=True)
class C51Loss:
    """What the loss says of a batch, and the gradients `[P, B, A, K]` of `value`.

    `value` `[P]` is the weighted batch mean, `sample` `[P, B]` each sample's loss before its weight. `priority`
    `[P, B]` is the sum of KL(m || p) over the branches counted: Rainbow's priority (arXiv 1710.02298), summed as
    Tavakoli et al. sum |error|. It is never negative, so branches that err in opposite directions cannot cancel.
    """

    value: torch.Tensor
    direction_logits: torch.Tensor
    magnitude_logits: torch.Tensor
    sample: torch.Tensor
    priority: torch.Tensor


def _branch(logits: torch.Tensor, action: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the taken action `[P, B]` and its gradient at that action's logits `[P, B, K]`."""
    log_p = torch.log_softmax(select(logits, action), -1)
    return -(m * log_p).sum(-1), log_p.exp() * m.sum(-1, keepdim=True) - m


def _entropy(m: torch.Tensor) -> torch.Tensor:
    """-sum_i m_i log m_i `[P, B]`, with 0 log 0 = 0."""
    return -(m * m.clamp_min(torch.finfo(m.dtype).tiny).log()).sum(-1)


def _put(logits: torch.Tensor, action: torch.Tensor, d_chosen: torch.Tensor) -> torch.Tensor:
    """Gradient of `select`: `[P, B, A, K]`, `d_chosen` at the action and 0 elsewhere."""
    index = action[..., None, None].expand(*action.shape, 1, logits.shape[-1])
    return torch.zeros_like(logits).scatter_(2, index, d_chosen.unsqueeze(2))


def c51_loss(
    direction_logits: torch.Tensor,
    magnitude_logits: torch.Tensor,
    direction: torch.Tensor,
    magnitude: torch.Tensor,
    m: torch.Tensor,
    weight: torch.Tensor,
) -> C51Loss:
    """sum_b weight_b / B * mean over branches of -sum_i m_i log p_i(s, a).

    Logits `[P, B, A, K]`, actions int64 `[P, B]`, target `m` `[P, B, K]`, `weight` `[P, B]` (importance weights of
    prioritised replay). Where the direction taken is flat the magnitude's half is 0.
    """
    flat, share = direction == FLAT, (0.5 / direction.shape[1]) * weight
    loss_d, grad_d = _branch(direction_logits, direction, m)
    loss_m, grad_m = _branch(magnitude_logits, magnitude, m)
    grad_m = (grad_m * share[..., None]).masked_fill(flat[..., None], 0.0)
    entropy = _entropy(m)
    both = loss_d + loss_m.masked_fill(flat, 0.0)
    priority = (loss_d - entropy).clamp_min(0.0) + (loss_m - entropy).clamp_min(0.0).masked_fill(flat, 0.0)
    return C51Loss(
        (share * both).sum(1),
        _put(direction_logits, direction, grad_d * share[..., None]),
        _put(magnitude_logits, magnitude, grad_m),
        0.5 * both,
        priority,
    )
