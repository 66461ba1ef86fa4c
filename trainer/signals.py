"""The device tables from which every scalar and step count is read: `signals` float32 [P, S], `counters` int64 [P, C].

A captured graph bakes in Python numbers, so a value that can change between two steps is a slot here, declared once
with its unit, default and writer. Each member has its own row: arms of one pack may differ in any slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.config import GemConfig, TrainerConfig


@dataclass(frozen=True)
class Slot:
    name: str
    unit: str
    default: float
    writer: str  # the function; "config": set once from the trainer configuration; "constant": keeps its default


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
    Slot("epsilon", "probability", 1.0, "explore.epsilon"),
    Slot("c51_budget", "applied norms", 0.0, "config"),
    Slot("learning_health", "1", 1.0, "health.observe_q_gap"),  # slot 12 by the convention of the older trainer
    Slot("q_gap", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("q_gap_peak", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("q_gap_floor", "train volatilities", 0.0, "health.observe_q_gap"),
    Slot("norm_ema_rate", "1 per update", 0.0, "config"),
    Slot("applied_norm_ema", "gradient norm", 0.0, "components.observe_applied"),
    Slot("reward_scale", "1 / log return", 1.0, "pack.build_pack"),
    Slot("q_temperature", "train volatilities", 0.1, "constant"),
    Slot("adam_beta1_power", "1", 1.0, "optimiser.adam"),
    Slot("adam_beta2_power", "1", 1.0, "optimiser.adam"),
    Slot("episode_bars", "bars", 0.0, "config"),
)
LEARNING_HEALTH = 12
COUNTERS = ("updates", "bars", "adam_steps", "frozen_at")
GEM_SLOTS = ("wired", "coefficient", "dose")

assert SLOTS[LEARNING_HEALTH].name == "learning_health"


class Signals:
    """`table[:, index]` columns by name. Gem slots follow the fixed ones as `gem/<name>/<slot>`."""

    def __init__(self, members: int, gems: tuple[str, ...], device: torch.device) -> None:
        self.names = tuple(s.name for s in SLOTS) + tuple(f"gem/{g}/{s}" for g in gems for s in GEM_SLOTS)
        self._index = {name: i for i, name in enumerate(self.names)}
        defaults = [s.default for s in SLOTS] + [0.0] * (len(gems) * len(GEM_SLOTS))
        self.table = torch.tensor(defaults, dtype=torch.float32, device=device).repeat(members, 1)

    def __getitem__(self, name: str) -> torch.Tensor:
        """float32 [P], a view: writing to it writes the slot."""
        return self.table[:, self._index[name]]

    def write_config(self, trainer: TrainerConfig) -> None:
        """Copy the hyperparameters that the step reads into every member's row."""
        for slot in SLOTS:
            if slot.writer == "config":
                self[slot.name].fill_(float(getattr(trainer, slot.name)))

    def write_gem(self, gem: str, settings: list[GemConfig | None], coefficient: float) -> None:
        """One setting per member, None where the arm leaves the gem off; `coefficient` is the gem's own weight."""
        for row, setting in enumerate(settings):
            if setting is not None:
                self[f"gem/{gem}/wired"][row] = float(setting.mode == "wired")
                self[f"gem/{gem}/coefficient"][row] = setting.coefficient or coefficient
                self[f"gem/{gem}/dose"][row] = setting.dose


class Counters:
    """Step counts, one int64 column per name; `frozen_at` is -1 while the member trains."""

    def __init__(self, members: int, device: torch.device) -> None:
        self.table = torch.zeros(members, len(COUNTERS), dtype=torch.int64, device=device)
        self["frozen_at"].fill_(-1)

    def __getitem__(self, name: str) -> torch.Tensor:
        """int64 [P], a view."""
        return self.table[:, COUNTERS.index(name)]
