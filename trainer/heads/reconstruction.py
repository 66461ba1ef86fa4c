"""Linear decoder from the trunk back to the observation: what the trunk forgets, it cannot rebuild."""

from __future__ import annotations

import torch

from trainer.dense import Weights, input_gradient, linear, store


def forward(w: Weights, trunk: torch.Tensor) -> torch.Tensor:
    """The observation `[P, B, observation]` as rebuilt from trunk features `[P, B, H]`."""
    return linear(trunk, w["w_r"], w["b_r"])


def backward(w: Weights, trunk: torch.Tensor, d_output: torch.Tensor, out: Weights) -> torch.Tensor:
    """Write both parameter gradients over `out` from d loss / d output; return d loss / d trunk `[P, B, H]`."""
    store(out, "r", trunk, d_output)
    return input_gradient(w["w_r"], d_output)
