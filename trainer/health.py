"""Is a member still telling actions apart? The Q-gap and learning health.

Learning health is the Q-gap as a share of its own decaying peak: 1 while a network separates its actions as well as it
ever did, 0 when they all look alike. It needs no validation return, so nothing from validation can reach a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer import draws
from trainer.network import action_values, forward
from trainer.pack import Pack
from trainer.params import TARGETS
from trainer.signals import Signals

PROBE_STATES = 512
PEAK_DECAY, FLOOR_SHARE = 0.99, 0.5


@dataclass(frozen=True)
class QGap:
    """Best minus second-best action value on the probe states, `[P]`; edge mass is the probability on the end atoms."""

    direction: torch.Tensor
    magnitude: torch.Tensor
    edge_mass: torch.Tensor

    @property
    def mean(self) -> torch.Tensor:
        return 0.5 * (self.direction + self.magnitude)


def probe_rows(pack: Pack) -> torch.Tensor:
    """int64 `[P, 512]`: fixed rows of each member's train span, drawn from its seed."""
    count = pack.spans.count[pack.spans.fold][:, None]
    u = pack.draws.once(draws.PROBE_STATES, PROBE_STATES)
    drawn = torch.minimum((u.double() * count).long(), count - 1)
    return pack.spans.rows[pack.spans.fold[:, None], drawn]


def measure_q_gap(pack: Pack) -> QGap:
    """Online network, no exploration, on 512 train states x all last targets."""
    rows = probe_rows(pack)[..., None].expand(-1, -1, TARGETS).flatten(1)
    last = torch.arange(TARGETS, device=pack.device).repeat(PROBE_STATES).expand(pack.size, -1)
    act = forward(pack.online.weights, pack.online.norm(), pack.market.observe(rows, last))
    gaps, edges = [], []
    for logits in (act.direction_logits, act.magnitude_logits):
        best = action_values(logits, pack.support).topk(2, dim=-1).values
        gaps.append((best[..., 0] - best[..., 1]).mean(1))
        p = torch.softmax(logits, -1)
        edges.append((p[..., 0] + p[..., -1]).mean((1, 2)))
    return QGap(gaps[0], gaps[1], 0.5 * (edges[0] + edges[1]))


def observe_q_gap(signals: Signals, q_gap: torch.Tensor) -> None:
    """peak = max(0.99 peak, q_gap); floor = peak / 2; health = q_gap / peak, 1 while the peak is 0. All `[P]`.

    A Q-gap that is not finite leaves the peak where it was and sets health to 0: that network tells nothing apart.
    """
    finite = torch.isfinite(q_gap)
    before = PEAK_DECAY * signals["q_gap_peak"]
    peak = torch.where(finite, torch.maximum(before, q_gap), before)
    health = torch.where(peak > 0, q_gap / peak, torch.ones_like(peak))
    signals["q_gap"].copy_(q_gap)
    signals["q_gap_peak"].copy_(peak)
    signals["q_gap_floor"].copy_(FLOOR_SHARE * peak)
    signals["learning_health"].copy_(health.masked_fill(~finite, 0.0))
