"""The evidence as arrays, one entry a unit in launch order: what the looks are taken on, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.redundancy import Panel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SignalUnits:
    """Stage 1. log10_sizes [n]; panels: feature -> the gem's sizes and that feature's signal, by member and epoch;
    without: feature -> log10 size with that feature off [n], NaN where there is none."""

    log10_sizes: Array
    panels: Mapping[str, Panel] = field(default_factory=dict)
    without: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class EffectUnits:
    """Stage 2, of one gem at one dose. difference [n]: mean of wired - probed over the pairs of a unit, annualised
    Sharpe; steadiness [n]: mean change of |deviation from the unit's median|, NaN with fewer than three pairs; collapse
    [n]: mean of (wired run failed) - (probed run failed); pairs [n]; gains [n]: pairs whose wired run scores higher;
    folds: fold -> difference [n] of that fold alone, NaN where not recorded."""

    difference: Array
    steadiness: Array
    collapse: Array
    pairs: Array
    gains: Array
    folds: Mapping[int, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.difference)


NONE = np.empty(0)
NO_EFFECT = EffectUnits(NONE, NONE, NONE, NONE, NONE)
