"""Alarms for mechanisms that look alive and do nothing. Each epoch, for each member:

INERT       something was armed in each of the last 3 epochs, and its applied gradient on the trunk was exactly 0
STUCK       a field kept every bit for 5 epochs while what it is computed from moved
OVERRIDDEN  learning health is not what its own function wrote last

An older trainer's collapse recovery was a silent no-op three times over; each of its faults raises one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trainer.components import Component
from trainer.measurement import Measurements
from trainer.params import SLICES
from trainer.signals import Signals

if TYPE_CHECKING:
    from trainer.pack import Pack
    from trainer.probe import Probe

INERT_EPOCHS, STUCK_EPOCHS = 3, 5
# Slots that must move when their input does; at a bound of [0, 1] learning health rightly stands still.
FIELDS = ("learning_health", "q_gap_ema_direction", "q_gap_ema_magnitude", "value_high", "applied_norm_ema")
TRUNK = SLICES.index("trunk")


@dataclass(frozen=True)
class Watch:
    """What the watchdog remembers between epochs."""

    inert: torch.Tensor  # int64 [P, C], epochs in a row
    stuck: torch.Tensor  # int64 [P, fields], epochs in a row
    fields: torch.Tensor  # float32 [P, fields], last values
    inputs: torch.Tensor  # float32 [P, fields]
    health: torch.Tensor  # float32 [P], as its own function wrote it
    overridden: torch.Tensor  # int64 [P], epochs so far

    def tensors(self) -> dict[str, torch.Tensor]:
        names = ("inert", "stuck", "fields", "inputs", "health", "overridden")
        return {f"watch/{name}": getattr(self, name) for name in names}


def make_watch(components: int, signals: Signals) -> Watch:
    members, device = signals.table.shape[0], signals.table.device
    count = torch.zeros(members, len(FIELDS), dtype=torch.int64, device=device)
    value = torch.zeros(members, len(FIELDS), device=device)
    inert = torch.zeros(members, components, dtype=torch.int64, device=device)
    health = signals["learning_health"].clone()
    return Watch(inert, count, value, value.clone(), health, torch.zeros_like(inert[:, 0]))


def armed(pack: Pack) -> torch.Tensor:
    """bool `[P, C]`: which components should have pulled on the trunk in the epoch that ends, by what triggers them.

    Distillation is triggered by low health alone: its other gates are what may be broken.
    """
    found = [_triggered(component, pack.signals) for component in pack.components]
    return torch.stack(found, 1) & (pack.counters["frozen_at"] < 0)[:, None]


def _triggered(component: Component, signals: Signals) -> torch.Tensor:
    if component.name == "distill":
        return (signals["distill_alpha_max"] > 0) & (signals["learning_health"] < signals["distill_health_on"])
    gates = [signals[gate] != 0 for gate in component.gates]
    open_ = torch.stack(gates).all(0) if gates else torch.zeros_like(signals["learning_health"], dtype=torch.bool)
    return open_ & (component.phase != "diagnostic")


def check_health(watch: Watch, signals: Signals) -> None:
    """Before health is written anew: does the slot still hold what was written last?"""
    watch.overridden.add_((_bits(signals["learning_health"]) != _bits(watch.health)).long())


def observe(watch: Watch, triggered: torch.Tensor, sums: Measurements, probe: Probe, signals: Signals) -> None:
    """After health was written: count on. `triggered` as `armed` gave it before."""
    idle = triggered & (sums.norms[:, :, TRUNK].T == 0) & (sums.diagnostics > 0)[:, None]
    watch.inert.copy_(torch.where(idle, watch.inert + 1, torch.zeros_like(watch.inert)))
    applied = sums.applied / sums.diagnostics
    inputs = torch.stack([probe.q_gap, probe.gap["direction"], probe.gap["magnitude"], probe.high, applied], 1)
    fields = torch.stack([signals[name] for name in FIELDS], 1)
    same, moved = _bits(fields) == _bits(watch.fields), _bits(inputs) != _bits(watch.inputs)
    at_bound = (fields == 0) | (fields == 1)
    at_bound[:, 1:] = False
    same &= ~at_bound & torch.isfinite(inputs)
    watch.stuck.copy_(torch.where(same, watch.stuck + moved.long(), torch.zeros_like(watch.stuck)))
    watch.fields.copy_(fields)
    watch.inputs.copy_(inputs)
    watch.health.copy_(signals["learning_health"])


def alarms(pack: Pack) -> list[str]:
    """One text a member, empty when nothing is wrong: `INERT distill; STUCK learning_health; OVERRIDDEN`."""
    watch, names = pack.watch, [c.name for c in pack.components]
    inert, stuck = (watch.inert >= INERT_EPOCHS).tolist(), (watch.stuck >= STUCK_EPOCHS).tolist()
    texts = []
    for idle, still, overridden in zip(inert, stuck, (watch.overridden > 0).tolist(), strict=True):
        found = [f"INERT {name}" for name, flag in zip(names, idle, strict=True) if flag]
        found += [f"STUCK {name}" for name, flag in zip(FIELDS, still, strict=True) if flag]
        texts.append("; ".join(found + (["OVERRIDDEN learning_health"] if overridden else [])))
    return texts


def _bits(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().view(torch.int32)
