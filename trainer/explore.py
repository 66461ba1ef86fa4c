"""How a walk chooses: greedy on value plus a bonus where the ensemble disagrees, and epsilon-greedy on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trainer.heads import ensemble
from trainer.losses.ensemble import deviation
from trainer.network import Activations, SpectralNorm, Weights, action_values, forward
from trainer.params import DIRECTIONS, MAGNITUDES

if TYPE_CHECKING:
    from trainer.pack import Pack


def greedy(act: Activations, support: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int64 direction and magnitude `[P, B]` with the largest expected return in each branch."""
    direction = action_values(act.direction_logits, support).argmax(-1)
    return direction, action_values(act.magnitude_logits, support).argmax(-1)


def prefer(
    pack: Pack, weights: Weights, norm: SpectralNorm | None, observation: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a walk prefers: argmax of value + bonus x standard deviation over the bootstrapped heads.

    The optimism of SUNRISE (Lee et al. 2021, arXiv 2007.04938, eq. 7) on the heads of Osband et al. 2016.
    """
    seen = forward(weights, norm, observation)
    if "ensemble_kl" not in pack.features:
        return greedy(seen, pack.support)
    heads = ensemble.forward(weights, seen.trunk, pack.spec.trainer.ensemble.heads)
    lane = pack.signals["ensemble_bonus"][:, None, None]
    bonus = torch.where(lane != 0, lane * deviation(heads.values), torch.zeros_like(lane))
    direction = action_values(seen.direction_logits, pack.support) + bonus[..., :DIRECTIONS]
    magnitude = action_values(seen.magnitude_logits, pack.support) + bonus[..., DIRECTIONS:]
    return direction.argmax(-1), magnitude.argmax(-1)


def explore(
    direction: torch.Tensor, magnitude: torch.Tensor, probability: torch.Tensor, u: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """In each branch on its own, a uniform choice instead of the preferred one with `probability` `[P]`.

    `u` `[P, 4, E]`: coin and choice of the direction, coin and choice of the magnitude. With one coin for both, another
    size would only ever be tried together with a random direction, where no size is better than another, and the
    magnitude branch would never leave the first size it liked.
    """
    limit = probability[:, None]
    random_direction = (u[:, 1] * DIRECTIONS).long().clamp_(max=DIRECTIONS - 1)
    random_magnitude = (u[:, 3] * MAGNITUDES).long().clamp_(max=MAGNITUDES - 1)
    return (
        torch.where(u[:, 0] < limit, random_direction, direction),
        torch.where(u[:, 2] < limit, random_magnitude, magnitude),
    )
