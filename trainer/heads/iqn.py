"""Implicit quantile head (Dabney et al. 2018, arXiv 1806.06923, eq. 4): action values as functions of a quantile level.

The level tau enters through cosines, phi_j(tau) = relu(sum_i cos(pi i tau) w_ij + b_j) with i = 0..C-1 as in the paper
(several ports count 1..C), and multiplies the trunk features unit by unit. One hidden layer and the six values follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

import numba_kernels as nk
from trainer.dense import Weights, input_gradient, linear, product, relu_layer, store, store_hidden


@dataclass(frozen=True)
class IQNActivations:
    """What one forward leaves behind for its backward; `values` is `[P, B, N, 6]`, 3 directions then 3 magnitudes."""

    trunk: torch.Tensor  # [P, B, H]
    cosines: torch.Tensor  # [P, B * N, C]
    embedding: torch.Tensor  # [P, B * N, H], phi
    mixed: torch.Tensor  # [P, B * N, H], trunk times phi
    hidden: torch.Tensor  # [P, B * N, h]
    values: torch.Tensor


def _cosines(tau: torch.Tensor, count: int) -> torch.Tensor:
    """cos(pi i tau), i = 0..count-1: `[P, B, N]` -> `[P, B * N, count]`."""
    frequencies = math.pi * torch.arange(count, device=tau.device, dtype=tau.dtype)
    return (tau.flatten(1).unsqueeze(-1) * frequencies).cos_()


def _per_level(x: torch.Tensor, levels: int) -> torch.Tensor:
    """`[P, B * N, H]` seen as `[P, B, N, H]`."""
    return x.unflatten(1, (-1, levels))


def forward(w: Weights, trunk: torch.Tensor, tau: torch.Tensor) -> IQNActivations:
    """Values of both branches at the levels `tau` `[P, B, N]` in [0, 1], from trunk features `[P, B, H]`."""
    cosines = _cosines(tau, w["w_q0"].shape[1])
    embedding = relu_layer(cosines, w["w_q0"], w["b_q0"])
    mixed = (_per_level(embedding, tau.shape[-1]) * trunk.unsqueeze(2)).flatten(1, 2)
    hidden = relu_layer(mixed, w["w_q1"], w["b_q1"])
    values = _per_level(linear(hidden, w["w_q2"], w["b_q2"]), tau.shape[-1])
    return IQNActivations(trunk, cosines, embedding, mixed, hidden, values)


def backward(w: Weights, act: IQNActivations, d_values: torch.Tensor, out: Weights) -> torch.Tensor:
    """Write the six parameter gradients over `out`; return d loss / d trunk `[P, B, H]`.

    `d_values` `[P, B, N, 6]` is d loss / d values. The caller scales the trunk's share (the readiness ramp), not this.
    """
    d_out = d_values.flatten(1, 2)
    store(out, "q2", act.hidden, d_out)
    d_hidden = input_gradient(w["w_q2"], d_out)
    store_hidden(out, "q1", act.mixed, act.hidden, d_hidden)
    d_mixed, d_trunk = input_gradient(w["w_q1"], d_hidden), torch.empty_like(act.trunk)
    nk.mixing_gradient(d_mixed, act.embedding, act.trunk.contiguous(), d_trunk, out["b_q0"].squeeze(1))
    product(out["w_q0"], act.cosines.transpose(1, 2), d_mixed)  # d_mixed has become that of the embedding
    return d_trunk
