"""G10: does the policy change its mind from one bar to the next?"""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.config import MAY_DUPLICATE
from trainer.gems.contract import Gem, GemContext, Measure


def jensen_shannon(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence in nats over the last axis."""
    middle = (0.5 * (p + q)).log()
    return 0.5 * (p * (p.log() - middle) + q * (q.log() - middle)).sum(-1)


def masked_mean(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """sum(values) / sum(weight) per member, 0 for an empty mask; the values carry the weight already."""
    out = values.new_empty(values.shape[0])
    nk.lane_mean(values, weight, out)
    return out


class TemporalConsistency(Gem):
    """JSD of softmax(Q / tau) at t and t + 1, summed over both branches, over pairs within one episode.

    The temporal smoothness term of CAPS (Mysore et al. 2021, arXiv 2012.06644) for discrete distributional heads.
    """

    name = "g10_temporal"
    inputs = ("direction_q", "next_direction_q", "magnitude_q", "next_magnitude_q")
    coefficient = 1.0  # at most 2 log 2
    may_duplicate = MAY_DUPLICATE[name]

    def forward(self, ctx: GemContext) -> torch.Tensor:
        total = torch.zeros_like(ctx.continues)
        tau = ctx.temperature[:, None, None]
        for branch in ("direction_q", "magnitude_q"):
            now, later = getattr(ctx, branch), getattr(ctx, f"next_{branch}")
            total = total + jensen_shannon(torch.softmax(now / tau, -1), torch.softmax(later / tau, -1))
        weight = ctx.continues
        return (total * weight).sum(1) / weight.sum(1).clamp_min(1.0)

    def measure(self, ctx: GemContext) -> Measure:
        weight = ctx.continues
        samples = weight.sum(1).clamp_min(1.0)[:, None, None]
        value, gradients = weight.new_zeros(weight.shape[0]), {}
        for branch in ("direction_q", "magnitude_q"):
            now, later = getattr(ctx, branch), getattr(ctx, f"next_{branch}")
            each, d_now, d_later = torch.zeros_like(weight), torch.zeros_like(now), torch.zeros_like(later)
            nk.temporal_consistency(now, later, weight, ctx.temperature, ctx.active, each, d_now, d_later)
            value = value + masked_mean(each, weight)
            gradients[branch], gradients[f"next_{branch}"] = d_now / samples, d_later / samples
        return Measure(value, gradients)
