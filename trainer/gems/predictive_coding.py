"""G12: can the trunk foresee its own next state?"""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.gems.contract import Gem, GemContext, Measure
from trainer.gems.temporal_consistency import masked_mean


class PredictiveCoding(Gem):
    """|norm(pred(z_t, a_t)) - stopgrad norm(z_{t+1})|^2 = 2 - 2 cosine, over pairs within one episode.

    The self-predictive loss of SPR (Schwarzer et al. 2021, arXiv 2007.05929) with one step and no momentum encoder. Its
    component row is called `pred`, the name it had in the older trainer. While it is only probed its head stays as
    initialised: the value is that of an untrained predictor.
    """

    name = "g12_predictive"
    inputs = ("prediction",)
    coefficient = 0.01  # between 0 and 4, and far larger in gradient than C51 while its head is untrained

    def forward(self, ctx: GemContext) -> torch.Tensor:
        guess = torch.nn.functional.normalize(ctx.prediction, dim=-1)
        truth = torch.nn.functional.normalize(ctx.next_trunk.detach(), dim=-1)
        weight = ctx.continues
        return ((guess - truth).square().sum(-1) * weight).sum(1) / weight.sum(1).clamp_min(1.0)

    def measure(self, ctx: GemContext) -> Measure:
        weight = ctx.continues
        each, gradient = torch.zeros_like(weight), torch.zeros_like(ctx.prediction)
        nk.predictive_coding(ctx.prediction, ctx.next_trunk, weight, ctx.active, each, gradient)
        samples = weight.sum(1).clamp_min(1.0)[:, None, None]
        return Measure(masked_mean(each, weight), {"prediction": gradient / samples})
