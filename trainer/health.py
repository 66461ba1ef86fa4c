"""Learning health: does a member still tell its actions apart as well as it once did?

health = clip(q_gap / peak, 0, 1) with the raw Q-gap of this epoch and peak = max(0.99 peak, q_gap). Why the Q-gap: a
collapsed value network is one for which all actions look alike, whatever its loss says, and the gap measures just that.
Why raw: an average answers late, and a broken one answers never. Why relative to a decaying peak: the size of a healthy
gap depends on the network, the market and the discount. Why nothing else (returns, win rates, losses): those come from
validation or judge, or move for other reasons, and health decides about a gradient.
"""

from __future__ import annotations

import torch

from trainer.probe import Probe
from trainer.signals import Signals

PEAK_DECAY, FLOOR_SHARE = 0.99, 0.5  # per epoch; share of the peak above which a snapshot is worth keeping
EMA_RATE = 0.3  # per epoch, of the reported averages


def observe_q_gap(signals: Signals, probe: Probe) -> None:
    """At the end of an epoch write q_gap, its peak and floor, learning health, and the branches' averages.

    A Q-gap that is not finite leaves the peak where it was and sets health to 0: that network tells nothing apart.
    """
    q_gap = probe.q_gap
    finite = torch.isfinite(q_gap)
    before = PEAK_DECAY * signals["q_gap_peak"]
    peak = torch.where(finite, torch.maximum(before, q_gap), before)
    health = torch.where(peak > 0, q_gap / peak, torch.ones_like(peak)).clamp(0.0, 1.0)
    signals["q_gap"].copy_(q_gap)
    signals["q_gap_peak"].copy_(peak)
    signals["q_gap_floor"].copy_(FLOOR_SHARE * peak)
    signals["learning_health"].copy_(health.masked_fill(~finite, 0.0))
    for branch, gap in probe.gap.items():
        _average(signals[f"q_gap_ema_{branch}"], gap)


def observe_values(signals: Signals, probe: Probe) -> None:
    """Move the averages of the value range, for evaluation; see `move_support` for the training support."""
    _average(signals["value_low"], probe.low)
    _average(signals["value_high"], probe.high)


def _average(slot: torch.Tensor, value: torch.Tensor) -> None:
    """Exponential average; the first finite value starts it, one that is not finite is skipped."""
    moved = torch.where(slot == 0, value, slot + EMA_RATE * (value - slot))
    slot.copy_(torch.where(torch.isfinite(value), moved, slot))


def move_support(support: torch.Tensor, signals: Signals) -> None:
    """Spread the atoms `[P, K]` of every member evenly over its value range, in place."""
    low, high = signals["value_low"], signals["value_high"]
    share = torch.linspace(0.0, 1.0, support.shape[1], device=support.device)
    moved = low[:, None] + (high - low)[:, None] * share
    support.copy_(torch.where((high > low)[:, None], moved, support))
