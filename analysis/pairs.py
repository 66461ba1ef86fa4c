"""Pairs of runs that differ in one gem: probed in the base arm, wired in another arm, everything else equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from analysis.arms import arms_by_config, wired_gem
from trainer.config import TrialSpec

COLUMNS = [
    "gem", "trial", "config", "seed", "launch", "dose", "control", "treatment", "failed_control", "failed_treatment",
    "cause",
]  # fmt: skip


def pairs_frame(specs: Iterable[TrialSpec], scores: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """One row per gem, dose, configuration and seed with a wired arm; without one empty, with the same columns.

    gem: its name, from `names` by the reference that the plan gives; control, treatment: scores (annualised Sharpe) of
    the base and the wired run; failed_*: that run froze or went bankrupt and stands at the floor; cause: why a score is
    absent, "" when both are there.
    """
    found = {}
    for config, arms in arms_by_config(specs).items():
        for arm in arms.values() if "base" in arms else ():
            if wired := wired_gem(arms["base"], arm):
                found[config, arm.name] = wired
    runs = scores.set_index(["config", "arm", "seed"])
    rows = []
    for (config, arm, seed), treated in runs.iterrows():
        if (config, arm) not in found or (config, "base", seed) not in runs.index:
            continue
        gem, dose = found[config, arm]
        control = runs.loc[(config, "base", seed)]
        absent = {row["status"] for row in (control, treated) if pd.isna(row["sharpe"])}
        rows.append(
            (names.get(gem, gem), treated["trial"], config, seed, treated["launch"], dose, control["sharpe"],
             treated["sharpe"], bool(control["failed"]), bool(treated["failed"]), ", ".join(sorted(absent)))
        )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS).sort_values(["gem", "dose", "launch", "seed"], ignore_index=True)
