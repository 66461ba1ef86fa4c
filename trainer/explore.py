"""Epsilon-greedy choice of direction and magnitude, with a linear schedule computed on the device."""

from __future__ import annotations

import torch

from trainer.network import Activations, action_values
from trainer.params import DIRECTIONS, MAGNITUDES
from trainer.signals import Counters, Signals


def greedy(act: Activations, support: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int64 direction and magnitude `[P, B]` with the largest expected return in each branch."""
    direction = action_values(act.direction_logits, support).argmax(-1)
    return direction, action_values(act.magnitude_logits, support).argmax(-1)


def epsilon(signals: Signals, counters: Counters) -> torch.Tensor:
    """Update and return the exploration probability `[P]`: linear from start to end over the decay, then constant."""
    progress = (counters["updates"] / signals["epsilon_decay_updates"]).clamp(max=1.0)
    start = signals["epsilon_start"]
    signals["epsilon"].copy_(start + (signals["epsilon_end"] - start) * progress)
    return signals["epsilon"]


def explore(
    direction: torch.Tensor, magnitude: torch.Tensor, probability: torch.Tensor, u: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A uniform pair instead of the greedy one with `probability` `[P]`; `u` `[P, 3, E]`: coin and the two choices."""
    random = u[:, 0] < probability[:, None]
    random_direction = (u[:, 1] * DIRECTIONS).long().clamp_(max=DIRECTIONS - 1)
    random_magnitude = (u[:, 2] * MAGNITUDES).long().clamp_(max=MAGNITUDES - 1)
    return torch.where(random, random_direction, direction), torch.where(random, random_magnitude, magnitude)
