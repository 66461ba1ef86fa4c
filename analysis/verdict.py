"""What a verdict is: a label, the grade behind it, the numbers it rests on, and everything that stands beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.ablation import Ablation
from analysis.redundancy import CoMovement

Label = Literal["WIRE", "DELETE", "MORE TRIALS", "INVALID"]
Grade = Literal[
    "improves", "steadies", "harmless",  # WIRE
    "zero", "redundant", "hurts", "no benefit",  # DELETE
    "too few", "undecided", "candidate", "maybe redundant", "fragile", "not shown to have learned",
    "not measured",  # MORE TRIALS
    "impure", "not learned",  # INVALID
]  # fmt: skip
TITLES = {"candidate": "candidate: run the wired arm", "too few": "too few configurations"}
NAN_PAIR = (float("nan"), float("nan"))


@dataclass(frozen=True)
class Look:
    """Stage 1 at the first `n` units: geometric mean size and its repeated interval, shares of |c51_bs|."""

    n: int
    estimate: float
    low: float
    high: float
    finding: Literal["zero", "candidate", "undecided"]


@dataclass(frozen=True)
class EffectLook:
    """Stage 2 at the first `n` units: mean difference wired - probed and its repeated interval, annualised Sharpe;
    upper bounds of the change of |deviation from the configuration's median| (`steadiness`, below 0: steadier) and of
    the rate of failed runs (`collapse`); `finding`: what the look shows, "" for nothing."""

    n: int
    estimate: float
    low: float
    high: float
    steadiness: float
    collapse: float
    finding: Literal["improves", "steadies", "harmless", "hurts", "no benefit", ""]


@dataclass(frozen=True)
class Effect:
    """One unit of stage 2: mean difference over its `pairs`, annualised Sharpe."""

    unit: str
    difference: float
    pairs: int


@dataclass(frozen=True)
class Verdict:
    """The verdict on one gem. `stage` says which evidence decided; `n`, `needed`, `estimate` and `interval` are of that
    stage: configurations and shares of |c51_bs| in stage 1, configurations and annualised Sharpe in stage 2. `needed`
    is None when none is needed or none within the schedule would do.

    looks, effect_looks: every look of either stage. slices: size by slice. redundancy: co-movement with the existing
    features; ablations: the gem's size without each. effects: one per unit; win_rate: share of pairs that gain; dose of
    the wired arm. path_interval: 90 % of the difference when blocks of time are drawn again, beside the verdict.
    absent: what is no evidence, with the reason. notes: what else a reader must know.
    """

    gem: str
    label: Label
    grade: Grade
    reason: str
    n: int
    needed: int | None = None
    estimate: float = float("nan")
    interval: tuple[float, float] = NAN_PAIR
    looks: tuple[Look, ...] = ()
    slices: Mapping[str, float] = field(default_factory=dict)
    redundancy: tuple[CoMovement, ...] = ()
    absent: tuple[str, ...] = ()
    stage: int = 1
    ablations: tuple[Ablation, ...] = ()
    effect_looks: tuple[EffectLook, ...] = ()
    effects: tuple[Effect, ...] = ()
    win_rate: float = float("nan")
    dose: float = float("nan")
    path_interval: tuple[float, float] = NAN_PAIR
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The label with its grade, as shown in tables."""
        return f"{self.label} ({TITLES.get(self.grade, self.grade)})"

    @property
    def provisional(self) -> bool:
        """Whether more evidence may still change it: a gem of stage 1 has not been wired yet."""
        return self.stage == 1 or self.label == "MORE TRIALS"

    @property
    def signal(self) -> Look | None:
        """The look of stage 1 that settled the signal, else the last one."""
        settled = next((look for look in self.looks if look.finding != "undecided"), None)
        return settled or (self.looks[-1] if self.looks else None)

    @property
    def effect(self) -> EffectLook | None:
        """The last look of stage 2."""
        return self.effect_looks[-1] if self.effect_looks else None
