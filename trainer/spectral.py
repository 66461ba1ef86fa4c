"""Power iteration for the largest singular value of w_s2, measured on the raw weights whether applied or not."""

from __future__ import annotations

import torch

from trainer.network import SpectralNorm

TINY = 1e-12


def _unit(x: torch.Tensor) -> torch.Tensor:
    return x / x.square().sum((1, 2), keepdim=True).sqrt().clamp_min(TINY)


def estimate(weight: torch.Tensor, left: torch.Tensor, right: torch.Tensor, on: bool) -> SpectralNorm:
    """Sigma `[P, 1, 1]` of `weight` `[P, rows, columns]` from the present vectors, without iterating."""
    sigma = torch.bmm(torch.bmm(left.transpose(1, 2), weight), right.transpose(1, 2))
    return SpectralNorm(left, right, sigma.clamp_min(TINY), on)


def iterate(weight: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """One step in place on `left` `[P, rows, 1]` and `right` `[P, 1, columns]` (Miyato et al. 2018, Algorithm 1)."""
    right.copy_(_unit(torch.bmm(left.transpose(1, 2), weight)))
    left.copy_(_unit(torch.bmm(weight, right.transpose(1, 2))))
