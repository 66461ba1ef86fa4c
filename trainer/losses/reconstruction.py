"""Squared error of the observation rebuilt from the trunk."""

from __future__ import annotations

import torch

from trainer.losses.branches import Loss


def reconstruction_loss(rebuilt: torch.Tensor, observation: torch.Tensor) -> Loss:
    """Mean over batch and features of (rebuilt - observation)^2, both `[P, B, observation]`, and its gradient."""
    error = rebuilt - observation
    count = error[0].numel()
    return Loss((error * error).flatten(1).sum(1) / count, error * (2.0 / count))
