"""Is measuring free of side effects? The off arm must train exactly as the base arm, bit for bit, at every epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.arms import arms_by_config, is_off_arm
from trainer.config import TrialSpec

COLUMN = "purity/params_sha"


@dataclass(frozen=True)
class Purity:
    """`compared` counts (seed, fold, epoch) rows of which both arms' parameter hashes are recorded."""

    state: Literal["pure", "impure", "not recorded"]
    compared: int
    reason: str


def purity(specs: Iterable[TrialSpec], epochs: pd.DataFrame) -> Purity:
    """Compares parameter hashes of base and off arm wherever a configuration has both."""
    configs = [
        config
        for config, arms in arms_by_config(specs).items()
        if "base" in arms and "off" in arms and is_off_arm(arms["base"], arms["off"])
    ]
    if not configs or COLUMN not in epochs.columns:
        return Purity("not recorded", 0, "no trial has an off arm beside its base arm")
    rows = epochs[epochs["config"].isin(configs)]
    keys = ["config", "seed", "fold", "epoch"]
    arms = [rows[rows["arm"] == arm][[*keys, COLUMN]] for arm in ("base", "off")]
    both = arms[0].merge(arms[1], on=keys, suffixes=("_base", "_off"))
    if both.empty:
        return Purity("not recorded", 0, "the trial with the off arm has no record yet")
    differing = both[both[f"{COLUMN}_base"] != both[f"{COLUMN}_off"]].sort_values(["epoch", "config", "seed", "fold"])
    if len(differing):
        first = differing.iloc[0]
        where = f"configuration {first['config']}, seed {first['seed']}, fold {first['fold']}, epoch {first['epoch']}"
        return Purity("impure", len(both), f"parameters of base and off arm differ first at {where}")
    members = both.groupby(["config", "seed", "fold"]).ngroups
    return Purity(
        "pure", len(both), f"off arm equals base arm bit for bit in all {len(both)} rows of {members} members"
    )
