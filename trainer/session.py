"""What one process keeps from trial to trial: the bars, the pack's memory and the captured step.

Trials of a sweep mostly differ in numbers that the step reads from device tables. For such a trial the pack of the last
one is filled afresh, in place, and its captured graphs are replayed as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from trainer.capture import Step, make_step
from trainer.config import DataConfig, TrialSpec
from trainer.data.source import load_table
from trainer.data.table import MarketTable
from trainer.pack import Pack, build_pack, reset_pack
from trainer.signals import SLOTS

# What the step never sees: read by the host between iterations, or once when a pack is filled.
HOST_ONLY = {"epochs", "updates_per_epoch", "diagnostics_per_epoch", "score_epochs"}
OUTSIDE = HOST_ONLY | {"network.v_max", "network.noise_sigma", "ensemble.mask_probability"}
COSTS = "market."  # a table of the pack
SLOTTED = {slot.source or slot.name for slot in SLOTS if slot.writer == "config"}


def structure(spec: TrialSpec) -> dict[str, Any]:
    """All of `spec` that decides shapes, launches or Python numbers in the step: equal means one graph serves both.

    Of what the step reads from tables it only says which values are 0, because a part that no member uses is not
    launched at all.
    """
    values = dict(_leaves(spec.trainer.model_dump(), ""))
    baked = {p: v for p, v in values.items() if p not in SLOTTED | OUTSIDE and not p.startswith(COSTS)}
    arms = {arm.name: arm for arm in spec.arms}
    # gems in their order: it is the order of their slots, rows and additions
    parts = {n: ([(g, s.mode) for g, s in arm.gems.items()], sorted(arm.features_off)) for n, arm in arms.items()}
    used = [parts[member.arm] for member in spec.members]
    off = {path for path in SLOTTED if values[path] == 0}
    return {"baked": baked, "members": used, "off": off, "machine": spec.machine.model_dump()}


def _leaves(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


class Session:
    """Hands out packs, and the step that trains them."""

    def __init__(self) -> None:
        self._data: DataConfig | None = None
        self._table: MarketTable | None = None
        self._pack: Pack | None = None
        self._step: Step | None = None

    def table(self, data: DataConfig) -> MarketTable:
        """The bars that `data` names, read once. A sweep compares the files with its plan before every trial."""
        if self._table is None or self._data != data:
            self._data, self._table = data, load_table(data)
        return self._table

    def open(self, spec: TrialSpec, table: MarketTable) -> tuple[Pack, Step]:
        """A pack of fresh members of `spec` and its step."""
        kept, step = self._pack, self._step
        if kept is not None and step is not None and kept.table is table and structure(kept.spec) == structure(spec):
            self._pack = replace(kept, spec=spec)
            reset_pack(self._pack)
            return self._pack, step
        self._pack = self._step = kept = step = None  # its memory goes before the new pack comes
        if spec.machine.device.startswith("cuda"):
            torch.cuda.empty_cache()
        self._pack = build_pack(spec, table)
        self._step = make_step(self._pack)
        return self._pack, self._step
