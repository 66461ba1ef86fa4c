"""What a member's network looks like on fixed train states, after every epoch: noise off, no exploration, no gradient.

The states are 512 bars of the member's train span times the seven last targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from trainer import draws
from trainer.heads import ensemble
from trainer.losses.ensemble import disagreement
from trainer.network import Activations, atoms_of, forward
from trainer.pack import Pack
from trainer.params import TARGETS

PROBE_STATES = 512
DORMANT = 0.025  # a unit below this share of its layer's mean activation (Sokar et al. 2023, arXiv 2302.12902)
LAYERS = ("first", "trunk", "value_hidden", "direction_hidden", "magnitude_hidden")
BRANCHES = ("direction", "magnitude")
SPREAD = 3.0  # standard deviations of the return distribution on either side that the value range covers


@dataclass(frozen=True)
class Probe:
    """All `[P]`, in train volatilities unless said otherwise.

    gap: best minus second-best action value by branch. entropy: of the greedy actions over the states, by branch, as a
    share of log 3. dormant: share of a layer's units that hardly fire, by layer. edge_mass: probability on the two end
    atoms. low, high: mean of the return distributions -/+ 3 of their standard deviations. disagreement: of the
    ensemble, in [0, 1], NaN without one.
    """

    gap: dict[str, torch.Tensor]
    entropy: dict[str, torch.Tensor]
    dormant: dict[str, torch.Tensor]
    edge_mass: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    disagreement: torch.Tensor

    @property
    def q_gap(self) -> torch.Tensor:
        """Mean of the branches `[P]`."""
        return 0.5 * (self.gap["direction"] + self.gap["magnitude"])


def probe_rows(pack: Pack) -> torch.Tensor:
    """int64 `[P, 512]`: fixed rows of each member's train span, drawn from its seed."""
    count = pack.spans.count[pack.spans.fold][:, None]
    u = pack.draws.once(draws.PROBE_STATES, PROBE_STATES)
    drawn = torch.minimum((u.double() * count).long(), count - 1)
    return pack.spans.rows[pack.spans.fold[:, None], drawn]


def measure_probe(pack: Pack) -> Probe:
    """Run the online network on the probe states."""
    rows = probe_rows(pack)[..., None].expand(-1, -1, TARGETS).flatten(1)
    last = torch.arange(TARGETS, device=pack.device).repeat(PROBE_STATES).expand(pack.size, -1)
    act = forward(pack.online.weights, pack.online.norm(), pack.market.observe(rows, last))
    p = {branch: torch.softmax(getattr(act, f"{branch}_logits"), -1) for branch in BRANCHES}
    values = {branch: (p[branch] * atoms_of(pack.support)).sum(-1) for branch in BRANCHES}
    low, high, edge = distribution_range(p, pack.support)
    return Probe(
        gap={branch: action_gap(values[branch]) for branch in BRANCHES},
        entropy={branch: greedy_entropy(values[branch]) for branch in BRANCHES},
        dormant={layer: dormant_share(getattr(act, layer)) for layer in LAYERS},
        edge_mass=edge,
        low=low,
        high=high,
        disagreement=ensemble_disagreement(pack, act),
    )


def action_gap(values: torch.Tensor) -> torch.Tensor:
    """Mean over the states of best minus second-best action value (Bellemare et al. 2016, arXiv 1512.04860)."""
    best = values.topk(2, dim=-1).values
    return (best[..., 0] - best[..., 1]).mean(1)


def greedy_entropy(values: torch.Tensor) -> torch.Tensor:
    """Entropy of the greedy action over the states `[P, N, A]`, divided by log A: 0 when one action always wins."""
    actions = values.shape[-1]
    shares = torch.nn.functional.one_hot(values.argmax(-1), actions).to(values.dtype).mean(1)
    return torch.xlogy(shares, shares).sum(-1).abs() / math.log(actions)


def dormant_share(activations: torch.Tensor) -> torch.Tensor:
    """Share of units of a ReLU layer `[P, N, H]` with E|h| at most 2.5 % of the layer's mean E|h|; 1 for a dead layer.

    Sokar et al. 2023, arXiv 2302.12902, eq. 1.
    """
    score = activations.abs().mean(1)
    return (score <= DORMANT * score.mean(1, keepdim=True)).to(activations.dtype).mean(1)


def distribution_range(
    p: dict[str, torch.Tensor], support: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Low and high end of the pooled distributions `[P, N, A, K]`, and the mass on the two end atoms. `[P]` each.

    Mass that piles up at an end raises the standard deviation, so the range then reaches beyond the support.
    """
    pooled = torch.stack([branch.mean((1, 2)) for branch in p.values()]).mean(0)
    atoms = atoms_of(support)[:, 0, 0]
    mean = (pooled * atoms).sum(-1)
    deviation = (pooled * (atoms - mean[:, None]).square()).sum(-1).sqrt()
    return mean - SPREAD * deviation, mean + SPREAD * deviation, pooled[:, 0] + pooled[:, -1]


def ensemble_disagreement(pack: Pack, act: Activations) -> torch.Tensor:
    """Mean over the states of the heads' normalised Jensen-Shannon divergence `[P]`."""
    if "ensemble_kl" not in pack.features:
        return torch.full((pack.size,), float("nan"), device=pack.device)
    heads = ensemble.forward(pack.online.weights, act.trunk, pack.spec.trainer.ensemble.heads)
    found = disagreement(heads.values, pack.signals["q_temperature"]).mean(1)
    return found.masked_fill(~pack.signals.uses("ensemble_kl"), float("nan"))
