"""The arms beside the base arm, told and not judged: what each changes, how its runs fared, and by how much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.arms import arms_by_config, feature_off, is_off_arm, wired_gem
from analysis.load import Experiment
from analysis.text import count_statuses, signed, signed_interval
from trainer.config import ArmConfig


@dataclass(frozen=True)
class FurtherArm:
    """`pairs` (configuration, seed) have a score in this arm and in the base arm; lo, median and hi are the quartiles
    of this score minus the base's. `statuses`: counts of what its runs are, "" where all are ok."""

    name: str
    change: str
    runs: int
    pairs: int
    lo: float
    median: float
    hi: float
    statuses: str

    def line(self) -> str:
        """For the terminal."""
        fared = f"; runs: {self.statuses}" if self.statuses else ""
        if not self.pairs:
            return f"arm {self.name} ({self.change}): {self.runs} runs, none with a score beside a base run's{fared}"
        found = f"{signed(self.median)} {signed_interval(self.lo, self.hi)}"
        return (
            f"arm {self.name} ({self.change}): judge Sharpe minus the base arm's {found} in {self.pairs} pairs{fared}"
        )


def further_arms(experiment: Experiment) -> list[FurtherArm]:
    """Every arm with a run but the base arm, in the order of the plan."""
    return list(_found(experiment))


def _found(experiment: Experiment) -> Iterator[FurtherArm]:
    arms = {name: arm for known in arms_by_config(experiment.specs).values() for name, arm in known.items()}
    scores = experiment.scores
    base = scores[scores["arm"] == "base"].set_index(["config", "seed"])["sharpe"]
    for name, arm in arms.items():
        if name == "base":
            continue
        own = scores[scores["arm"] == name].set_index(["config", "seed"])
        if own.empty:
            continue
        difference = (own["sharpe"] - base).dropna()
        quartiles = difference.quantile([0.25, 0.5, 0.75]) if len(difference) else pd.Series([float("nan")] * 3)
        statuses = count_statuses(own["status"])
        change = _change(arms.get("base"), arm)
        low, median, high = (float(value) for value in quartiles)
        yield FurtherArm(name, change, len(own), len(difference), low, median, high, statuses)


def _change(base: ArmConfig | None, arm: ArmConfig) -> str:
    if base is None:
        return "no base arm"
    if wired := wired_gem(base, arm):
        return f"{wired[0]} wired at a dose of {wired[1]:g}"
    if left_out := feature_off(base, arm):
        return f"without {left_out}"
    return "gems off" if is_off_arm(base, arm) else "several changes"
