"""Linear decoder from the trunk back to the observation: what the trunk forgets, it cannot rebuild."""

from __future__ import annotations

import torch

from trainer.heads.dense import input_gradient, store_gradients
from trainer.network import Weights, linear


def forward(w: Weights, trunk: torch.Tensor) -> torch.Tensor:
    """The observation `[P, B, observation]` as rebuilt from trunk features `[P, B, H]`."""
    return linear(trunk, w["w_r"], w["b_r"])


def backward(w: Weights, trunk: torch.Tensor, d_output: torch.Tensor, out: Weights) -> torch.Tensor:
    """Write both parameter gradients over `out` from d loss / d output; return d loss / d trunk `[P, B, H]`."""
    store_gradients(out, "r", trunk, d_output)
    return input_gradient(w, "r", d_output)
