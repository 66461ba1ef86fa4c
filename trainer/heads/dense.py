"""The two gradients of a packed linear layer `y = x @ w + b`."""

from __future__ import annotations

import torch

from trainer.network import Weights


def store_gradients(out: Weights, name: str, x: torch.Tensor, d_output: torch.Tensor) -> None:
    """Write d loss / d w and d loss / d b over `out`, from `x` `[P, B, inputs]` and `d_output` `[P, B, outputs]`."""
    out[f"w_{name}"].copy_(torch.bmm(x.transpose(1, 2), d_output))
    out[f"b_{name}"].copy_(d_output.sum(1, keepdim=True))


def input_gradient(w: Weights, name: str, d_output: torch.Tensor) -> torch.Tensor:
    """d loss / d x `[P, B, inputs]`."""
    return torch.bmm(d_output, w[f"w_{name}"].transpose(1, 2))
