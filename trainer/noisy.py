"""Factorised noise on the hidden layers of the three heads (Fortunato et al. 2018, arXiv 1706.10295, eq. 10 and 11).

w = mu + sigma * f(e_in) f(e_out)', b = mu_b + sigma_b * f(e_out), f(x) = sign(x) sqrt|x|. Spectral norm sits on the
trunk, so that no layer has both. A member whose arm leaves the noise out has exactly w = mu.
"""

from __future__ import annotations

import math

import torch

from trainer.dense import Weights
from trainer.draws import Draws
from trainer.params import HEADS

LAYERS = tuple(f"{head[0]}1" for head in HEADS)


def normal(uniform: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers from uniform ones in [0, 1): the inverse distribution function, ends kept finite."""
    centred = (2.0 * uniform - 1.0).clamp(-1.0 + 2.0**-24, 1.0 - 2.0**-24)
    return torch.erfinv(centred) * math.sqrt(2.0)


def factor(normals: torch.Tensor) -> torch.Tensor:
    """f(x) = sign(x) sqrt|x|: mean 0, second moment sqrt(2 / pi)."""
    return normals.sign() * normals.abs().sqrt()


def perturb(weights: Weights, draw: Draws, purpose: int, step: torch.Tensor, on: torch.Tensor) -> Weights:
    """`weights` with the noisy layers replaced by one draw, and `noise_*`: what the scales were multiplied with.

    One draw serves a whole batch. `step` int64 `[P]`, contiguous; `on` float32 `[P]`, 0 where the member has no noise.
    """
    _, inputs, outputs = weights["w_v1"].shape
    count = len(LAYERS) * (inputs + outputs)
    active = (on != 0)[:, None, None]
    factors = factor(normal(draw.uniform(purpose, step, count)))
    factors = torch.where(active[:, 0], factors, torch.zeros_like(factors))
    noisy, start = dict(weights), 0
    for layer in LAYERS:
        left = factors[:, start : start + inputs, None]
        right = factors[:, None, start + inputs : start + inputs + outputs]
        start += inputs + outputs
        for name, noise in ((f"w_{layer}", left * right), (f"b_{layer}", right)):
            noisy[name] = torch.addcmul(weights[name], weights[f"sigma_{name}"], noise)
            noisy[f"noise_{name}"] = noise
    return noisy
