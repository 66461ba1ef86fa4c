"""Bootstrapped value heads (Osband et al. 2016, arXiv 1602.04621): K small networks side by side on one trunk.

A head has its own hidden layer of e units and its own six values. The hidden layers of all heads are one product; the
last layers are one batched product over members times heads, so that no head sees another's units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.dense import Weights, input_gradient, linear, relu_layer, store_hidden


@dataclass(frozen=True)
class EnsembleActivations:
    """What one forward leaves behind; `values` is `[P, B, heads, 6]`, 3 directions then 3 magnitudes."""

    trunk: torch.Tensor  # [P, B, H]
    hidden: torch.Tensor  # [P, B, heads * e]
    values: torch.Tensor


def _head_major(x: torch.Tensor) -> torch.Tensor:
    """`[P, B, heads, n]` -> `[P * heads, B, n]`."""
    return x.transpose(1, 2).flatten(0, 1)


def _sample_major(x: torch.Tensor, heads: int) -> torch.Tensor:
    """`[P * heads, B, n]` -> `[P, B, heads, n]`."""
    return x.unflatten(0, (-1, heads)).transpose(1, 2).contiguous()


def _last_layers(w: Weights, heads: int) -> torch.Tensor:
    """The heads' matrices `[P * heads, e, 6]`, which lie below each other in `w_e2` `[P, heads * e, 6]`."""
    return w["w_e2"].unflatten(1, (heads, -1)).flatten(0, 1)


def forward(w: Weights, trunk: torch.Tensor, heads: int) -> EnsembleActivations:
    """Values of both branches by each of `heads` heads, from trunk features `[P, B, H]`."""
    hidden = relu_layer(trunk, w["w_e1"], w["b_e1"])
    bias = w["b_e2"].flatten(0, 1).unsqueeze(1)
    values = linear(_head_major(hidden.unflatten(2, (heads, -1))), _last_layers(w, heads), bias)
    return EnsembleActivations(trunk, hidden, _sample_major(values, heads))


def backward(w: Weights, act: EnsembleActivations, d_values: torch.Tensor, out: Weights) -> torch.Tensor:
    """Write the four parameter gradients over `out` from `d_values` `[P, B, heads, 6]`; return d loss / d trunk."""
    heads = d_values.shape[2]
    d_out = _head_major(d_values)
    hidden = _head_major(act.hidden.unflatten(2, (heads, -1)))
    out["w_e2"].copy_(torch.bmm(hidden.transpose(1, 2), d_out).view(out["w_e2"].shape))
    out["b_e2"].copy_(d_values.sum(1))
    through = torch.bmm(d_out, _last_layers(w, heads).transpose(1, 2))
    d_hidden = _sample_major(through, heads).flatten(2)
    store_hidden(out, "e1", act.trunk, act.hidden, d_hidden)
    return input_gradient(w["w_e1"], d_hidden)
