"""Snapshots of members that told their actions apart, ranked by raw Q-gap; the best one is the teacher.

Nothing from validation or judge decides: the gate sees the Q-gap of one epoch on train states (seed of this rule: an
older trainer passed a moving average that was stuck at 0, and its gate never opened). The teacher lives in one buffer
for the whole trial, refreshed in place, because a captured step holds its address.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.signals import Counters, Signals


@dataclass(frozen=True)
class Snapshots:
    """The last R accepted snapshots of each member as a ring, and the teacher."""

    params: torch.Tensor  # float32 [P, R, total]
    q_gap: torch.Tensor  # float32 [P, R], -inf where there is none yet
    epoch: torch.Tensor  # int64 [P, R]
    best: torch.Tensor  # float32 [P, total]

    def tensors(self) -> dict[str, torch.Tensor]:
        return {f"snapshots/{name}": getattr(self, name) for name in ("params", "q_gap", "epoch", "best")}

    def clear(self, params: torch.Tensor) -> None:
        """An empty ring; the teacher is a copy of `params` `[P, total]`, so that it pulls nowhere."""
        self.params.zero_()
        self.q_gap.fill_(-torch.inf)
        self.epoch.fill_(-1)
        self.best.copy_(params)


def make_snapshots(ring: int, params: torch.Tensor) -> Snapshots:
    """A cleared ring of `ring` places for members with `params` `[P, total]`."""
    members, device = params.shape[0], params.device
    made = Snapshots(
        torch.empty(members, ring, params.shape[1], device=device),
        torch.empty(members, ring, device=device),
        torch.empty(members, ring, dtype=torch.int64, device=device),
        torch.empty_like(params),
    )
    made.clear(params)
    return made


def accepts(signals: Signals, counters: Counters) -> torch.Tensor:
    """bool `[P]`: this epoch's Q-gap is finite, above 0 and at least the floor; the member still trains and distils."""
    q_gap, floor = signals["q_gap"], signals["q_gap_floor"]
    wanted = (counters["frozen_at"] < 0) & signals.uses("distillation")
    return torch.isfinite(q_gap) & (q_gap > 0) & (q_gap >= floor) & wanted


def offer(snapshots: Snapshots, params: torch.Tensor, signals: Signals, counters: Counters, epoch: int) -> None:
    """At the end of an epoch: keep the accepted members' `params` `[P, total]` and refresh their teacher, in place."""
    accepted, ring = accepts(signals, counters), snapshots.q_gap.shape[1]
    place = counters["snapshots_accepted"] % ring
    taken = accepted[:, None] & (place[:, None] == torch.arange(ring, device=place.device))
    snapshots.params.copy_(torch.where(taken[..., None], params[:, None], snapshots.params))
    snapshots.q_gap.copy_(torch.where(taken, signals["q_gap"][:, None], snapshots.q_gap))
    snapshots.epoch.masked_fill_(taken, epoch)
    counters["snapshots_accepted"].add_(accepted.long())
    teacher = snapshots.q_gap.argmax(1, keepdim=True)
    chosen = snapshots.params.gather(1, teacher[..., None].expand(-1, 1, params.shape[1]))[:, 0]
    snapshots.best.copy_(torch.where(accepted[:, None], chosen, snapshots.best))
    since = snapshots.epoch.gather(1, teacher)[:, 0]
    counters["snapshot_epoch"].copy_(torch.where(accepted, since, counters["snapshot_epoch"]))
    signals["distill_armed"].masked_fill_(accepted, 1.0)
