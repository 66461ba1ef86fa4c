"""Schedules: coefficients that change with the number of updates, computed on the device and written to their slots.

All are linear and then constant. A captured step replays these functions, so nothing is written from the host.
"""

from __future__ import annotations

import torch

from trainer.signals import Counters, Signals

# Slot written -> (start, end, updates it takes).
LINEAR = {
    "epsilon": ("epsilon_start", "epsilon_end", "epsilon_decay_updates"),
    "priority_beta": ("priority_beta_start", "priority_beta_end", "priority_beta_updates"),
    "cql_coefficient": ("cql_weight", "cql_weight_end", "cql_anneal_updates"),
}


def linear(start: torch.Tensor, end: torch.Tensor, duration: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """start + (end - start) * min(1, updates / duration), and `end` to the bit from then on. All `[P]`."""
    progress = (updates / duration).clamp(max=1.0)
    return torch.where(progress < 1.0, start + (end - start) * progress, end)


def readiness(signals: Signals, updates: torch.Tensor) -> torch.Tensor:
    """How far the trunk gradient of IQN is open `[P]`: 0 for `iqn_warmup_updates`, then linear to 1 over
    `iqn_ramp_updates`. The head learns from the first update: it opens the trunk once it has something to say."""
    return ((updates - signals["iqn_warmup_updates"]) / signals["iqn_ramp_updates"]).clamp(0.0, 1.0)


def write_schedules(signals: Signals, counters: Counters) -> None:
    """Bring all scheduled slots to the present number of updates."""
    updates = counters["updates"]
    for slot, names in LINEAR.items():
        start, end, duration = (signals[name] for name in names)
        signals[slot].copy_(linear(start, end, duration, updates))
    signals["iqn_readiness"].copy_(readiness(signals, updates))
