"""G6: do the direction and the magnitude branch learn different features?"""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.config import MAY_DUPLICATE
from trainer.gems.contract import Gem, GemContext, Measure


def standardise(x: torch.Tensor) -> torch.Tensor:
    """Columns with mean 0 and standard deviation 1 (ddof 1) over the batch `[P, B, H]`; a constant column becomes 0."""
    centred = x - x.mean(1, keepdim=True)
    variance = centred.square().sum(1, keepdim=True) / (x.shape[1] - 1)
    alive = variance > 0  # selected before the root, whose gradient at 0 is infinite
    return torch.where(alive, centred / torch.where(alive, variance, 1.0).sqrt(), 0.0)


class BranchIndependence(Gem):
    """Squared Frobenius norm of the cross-correlation of the two branches' hidden features.

    C = X'Y / (B - 1) with standardised X, Y; value |C|^2. With linear kernels this is HSIC (Gretton et al. 2005) of the
    standardised features, and the off-diagonal idea of Barlow Twins (Zbontar et al. 2021, arXiv 2103.03230).
    """

    name = "g6_branch_indep"
    inputs = ("direction_hidden", "magnitude_hidden")
    coefficient = 1e-4  # a sum over all pairs of units: of the order of 100 at the start
    may_duplicate = MAY_DUPLICATE[name]

    def forward(self, ctx: GemContext) -> torch.Tensor:
        x, y = standardise(ctx.direction_hidden), standardise(ctx.magnitude_hidden)
        correlation = torch.bmm(x.transpose(1, 2), y) / (x.shape[1] - 1)
        return correlation.square().sum((1, 2))

    def measure(self, ctx: GemContext) -> Measure:
        x, y = ctx.direction_hidden.contiguous(), ctx.magnitude_hidden.contiguous()
        value, grad_x, grad_y = x.new_zeros(x.shape[0]), torch.zeros_like(x), torch.zeros_like(y)
        nk.branch_independence(x, y, ctx.active, value, grad_x, grad_y)
        return Measure(value, {"direction_hidden": grad_x, "magnitude_hidden": grad_y})
