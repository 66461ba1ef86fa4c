"""The device tables from which every scalar and step count is read: `signals` float32 [P, S], `counters` int64 [P, C].

A captured graph bakes in Python numbers, so a value that can change between two steps is a slot here, declared once
with its unit, default and writer. Each member has its own row: arms of one pack may differ in any slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch

import numba_kernels as nk
from trainer.config import ArmConfig, Feature, GemConfig, TrainerConfig


@dataclass(frozen=True)
class Slot:
    name: str
    unit: str
    default: float
    writer: str  # the function; "config": set once from the configuration; "arm": also; "constant": keeps its default
    source: str = ""  # where the configuration has it; empty: under the slot's own name


SLOTS = (
    Slot("learning_rate", "1", 0.0, "config"),
    Slot("discount", "1 per bar", 0.0, "config"),
    Slot("target_rate", "1 per update", 0.0, "config"),
    Slot("clip_norm", "gradient norm", 0.0, "config"),
    Slot("adam_beta1", "1", 0.0, "config"),
    Slot("adam_beta2", "1", 0.0, "config"),
    Slot("adam_epsilon", "gradient", 0.0, "config"),
    Slot("epsilon_start", "probability", 0.0, "config"),
    Slot("epsilon_end", "probability", 0.0, "config"),
    Slot("epsilon_decay_updates", "updates", 0.0, "config"),
    Slot("epsilon", "probability", 1.0, "schedules.write_schedules"),
    Slot("c51_budget", "applied norms", 0.0, "config"),
    Slot("learning_health", "1", 1.0, "health.observe_q_gap"),  # slot 12 by the convention of the older trainer
    Slot("q_gap", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("q_gap_peak", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("q_gap_floor", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("norm_ema_rate", "1 per update", 0.0, "config"),
    Slot("applied_norm_ema", "gradient norm", 0.0, "optimiser.clip"),
    Slot("reward_scale", "1 / log return", 1.0, "pack._fresh_signals"),
    Slot("q_temperature", "train volatilities", 0.1, "constant"),
    Slot("adam_beta1_power", "1", 1.0, "optimiser.clip"),
    Slot("adam_beta2_power", "1", 1.0, "optimiser.clip"),
    Slot("episode_bars", "bars", 0.0, "config"),
    Slot("q_gap_ema_direction", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("q_gap_ema_magnitude", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("value_low", "train volatilities", 0.0, "health.observe_values"),
    Slot("value_high", "train volatilities", 0.0, "health.observe_values"),
    Slot("spectral_norm", "0 or 1", 0.0, "config", "network.spectral_norm"),
    Slot("noisy_nets", "0 or 1", 0.0, "config", "network.noisy_nets"),
    Slot("iqn_weight", "1", 0.0, "config", "iqn.weight"),
    Slot("iqn_warmup_updates", "updates", 0.0, "config", "iqn.warmup_updates"),
    Slot("iqn_ramp_updates", "updates", 0.0, "config", "iqn.ramp_updates"),
    Slot("iqn_readiness", "1", 0.0, "schedules.write_schedules"),
    Slot("ensemble_weight", "1", 0.0, "config", "ensemble.weight"),
    Slot("ensemble_bonus", "standard deviations", 0.0, "config", "ensemble.bonus"),
    Slot("reconstruction_weight", "1", 0.0, "config"),
    Slot("cql_weight", "1", 0.0, "config", "cql.weight"),
    Slot("cql_weight_end", "1", 0.0, "config", "cql.weight_end"),
    Slot("cql_anneal_updates", "updates", 0.0, "config", "cql.anneal_updates"),
    Slot("cql_budget", "c51_bs norms", 0.0, "config", "cql.budget"),
    Slot("cql_coefficient", "1", 0.0, "schedules.write_schedules"),
    Slot("priority_alpha", "1", 0.0, "config"),
    Slot("priority_beta_start", "1", 0.0, "config"),
    Slot("priority_beta_end", "1", 0.0, "config"),
    Slot("priority_beta_updates", "updates", 0.0, "config"),
    Slot("priority_beta", "1", 0.0, "schedules.write_schedules"),
    Slot("distill_alpha_max", "gradient per parameter", 0.0, "config", "distillation.alpha_max"),
    Slot("distill_health_on", "1", 0.0, "config", "distillation.health_on"),
    Slot("distill_armed", "0 or 1", 0.0, "snapshots.offer"),
    Slot("distill_alpha", "gradient per parameter", 0.0, "aux_ops.distill"),
)
# What an arm that leaves a feature out sets to 0.
FEATURE_SLOTS: dict[Feature, tuple[str, ...]] = {
    "spectral_norm": ("spectral_norm",),
    "noisy_nets": ("noisy_nets",),
    "ensemble_kl": ("ensemble_weight", "ensemble_bonus"),
    "iqn": ("iqn_weight",),
    "cql": ("cql_weight", "cql_weight_end"),
    "reconstruction": ("reconstruction_weight",),
    "distillation": ("distill_alpha_max",),
    "prioritised_replay": ("priority_alpha",),
}
LEARNING_HEALTH = 12
COUNTERS = ("updates", "bars", "adam_steps", "frozen_at", "snapshots_accepted", "snapshot_epoch")
DISTILL_SLOTS = ("learning_health", "distill_alpha_max", "distill_health_on", "distill_armed")  # as its kernel reads
GEM_SLOTS = ("wired", "coefficient", "dose")

assert SLOTS[LEARNING_HEALTH].name == "learning_health"


class Signals:
    """`table[:, index]` columns by name. Gem slots follow the fixed ones as `gem/<name>/<slot>`."""

    def __init__(self, members: int, gems: tuple[str, ...], device: torch.device) -> None:
        self.names = tuple(s.name for s in SLOTS) + tuple(f"gem/{g}/{s}" for g in gems for s in GEM_SLOTS)
        self._index = {name: i for i, name in enumerate(self.names)}
        defaults = [s.default for s in SLOTS] + [0.0] * (len(gems) * len(GEM_SLOTS))
        self.table = torch.tensor(defaults, dtype=torch.float32, device=device).repeat(members, 1)
        self._places: dict[tuple[str, ...], torch.Tensor] = {}

    def __getitem__(self, name: str) -> torch.Tensor:
        """float32 [P], a view: writing to it writes the slot."""
        return self.table[:, self._index[name]]

    def places(self, names: tuple[str, ...]) -> torch.Tensor:
        """int64 columns of the slots `names` in the table; made once, before anything is captured."""
        if names not in self._places:
            self._places[names] = torch.tensor([self._index[name] for name in names], device=self.table.device)
        return self._places[names]

    def write_config(self, trainer: TrainerConfig) -> None:
        """Copy the hyperparameters that the step reads into every member's row."""
        for slot in SLOTS:
            if slot.writer == "config":
                path = (slot.source or slot.name).split(".")
                value: Any = reduce(getattr, path, trainer)
                self[slot.name].fill_(float(value))

    def write_features(self, arms: list[ArmConfig]) -> None:
        """Set to 0 what each member's arm leaves out."""
        for row, arm in enumerate(arms):
            for feature in arm.features_off:
                for slot in FEATURE_SLOTS[feature]:
                    self[slot][row] = 0.0

    def uses(self, feature: Feature) -> torch.Tensor:
        """bool `[P]`: which members have `feature` on."""
        return torch.stack([self[slot] != 0 for slot in FEATURE_SLOTS[feature]]).any(0)

    def features_on(self) -> frozenset[Feature]:
        """Features that some member uses; the others cost nothing in this pack."""
        return frozenset(feature for feature in FEATURE_SLOTS if bool(self.uses(feature).any()))

    def write_gem(self, gem: str, settings: list[GemConfig | None], coefficient: float) -> None:
        """One setting per member, None where the arm leaves the gem off; `coefficient` is the gem's own weight."""
        for row, setting in enumerate(settings):
            if setting is not None:
                self[f"gem/{gem}/wired"][row] = float(setting.mode == "wired")
                self[f"gem/{gem}/coefficient"][row] = setting.coefficient or coefficient
                self[f"gem/{gem}/dose"][row] = setting.dose


class Counters:
    """Step counts, one int64 column per name; -1 in `frozen_at` while it trains, in `snapshot_epoch` before one."""

    def __init__(self, members: int, device: torch.device) -> None:
        self.table = torch.zeros(members, len(COUNTERS), dtype=torch.int64, device=device)
        self.clip_columns = torch.tensor([COUNTERS.index(name) for name in nk.CLIP_COLUMNS], device=device)
        self["frozen_at"].fill_(-1)
        self["snapshot_epoch"].fill_(-1)

    def __getitem__(self, name: str) -> torch.Tensor:
        """int64 [P], a view."""
        return self.table[:, COUNTERS.index(name)]
