"""Power iteration for the largest singular value of w_s2, measured on the raw weights whether applied or not."""

from __future__ import annotations

import torch

from trainer.network import SpectralNorm

TINY = 1e-12


def _unit(x: torch.Tensor) -> torch.Tensor:
    return x / x.square().sum((1, 2), keepdim=True).sqrt().clamp_min(TINY)


def estimate(weight: torch.Tensor, left: torch.Tensor, right: torch.Tensor, on: torch.Tensor) -> SpectralNorm:
    """Sigma `[P, 1, 1]` of `weight` `[P, rows, columns]` from the present vectors, without iterating; `on` bool."""
    sigma = (torch.bmm(left, weight) * right).sum(2, keepdim=True)
    return SpectralNorm(left, right, sigma.clamp_min(TINY), on)


def iterate(weight: torch.Tensor, left: torch.Tensor, right: torch.Tensor, alive: torch.Tensor | None = None) -> None:
    """One step in place on `left` `[P, 1, rows]` and `right` `[P, 1, columns]` (Miyato et al. 2018, Algorithm 1).

    Members not `alive` (bool `[P]`) keep every bit; None: all are.

    Both are rows and both products row times matrix: a product with a column, or with a turned view of one, takes
    another path in a pack of one and rounds differently there.
    """
    new_right = _unit(torch.bmm(left, weight))
    new_left = _unit(torch.bmm(new_right, weight.transpose(1, 2)))
    for vector, new in ((right, new_right), (left, new_left)):
        vector.copy_(new if alive is None else torch.where(alive[:, None, None], new, vector))
