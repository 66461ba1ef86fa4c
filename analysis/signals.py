"""The evidence of stage 1: sizes of one gem in the base arm, with the existing features beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.arms import arms_by_config, feature_off
from analysis.frames import FINISHED, MEMBER
from analysis.load import Experiment

RUN_OF_BASE = ["config", "seed", "fold"]


def signals(experiment: Experiment, gem: str) -> pd.DataFrame:
    """One row per base member and recorded epoch of `gem`; a member without any record has one row, epoch -1.

    Columns: gem, trial, config, seed, fold, launch, epoch, remaining (epochs to come), status, final (its trial will
    not change any more), absent (why a trial failed and is no evidence), mode, size (|coef grad| / |c51_bs|
    over the slices that C51 reaches), value, size/<slice>, feature/<name> (only features that are on somewhere),
    off/<name> (its size at the same seed, fold and epoch in the arm without that feature).
    Raises KeyError for an unknown gem.
    """
    if gem not in experiment.gems:
        raise KeyError(f"no gem {gem!r} in {experiment.path}; measured are {experiment.gems}")
    members = experiment.members[experiment.members["arm"] == "base"]
    keys = members[[*MEMBER, "config", "launch"]].assign(gem=gem)
    keys["final"] = members["trial_status"].isin([*FINISHED, "failed"])
    keys["absent"] = members["cause"]
    frame = keys.merge(_sizes(experiment.epochs, gem), how="left", on=MEMBER)
    for feature, sizes in _sizes_without(experiment, gem).items():
        frame = frame.merge(sizes.rename(columns={"size": f"off/{feature}"}), how="left", on=[*RUN_OF_BASE, "epoch"])
    frame["status"] = frame["status"].where(frame["status"].notna(), "waiting").astype(str)
    frame["epoch"] = frame["epoch"].fillna(-1).astype("int64")
    frame["remaining"] = frame["remaining"].fillna(np.iinfo("int32").max).astype("int64")
    return frame


def _sizes(epochs: pd.DataFrame, gem: str) -> pd.DataFrame:
    prefix = f"gem/{gem}/"
    names = {name: name.removeprefix(prefix) for name in epochs.columns if name.startswith(prefix)}
    features = [name for name in epochs.columns if name.startswith("feature/") and _is_on(epochs, name)]
    frame = epochs[[*MEMBER, "epoch", "remaining", "status", *names, *features]].rename(columns=names)
    return frame[epochs["arm"] == "base"]


def _sizes_without(experiment: Experiment, gem: str) -> dict[str, pd.DataFrame]:
    """(config, seed, fold, epoch, size) of healthy members of the arms that leave one feature out, by feature."""
    column, parts = f"gem/{gem}/size", dict[str, list[pd.DataFrame]]()
    for config, arms in arms_by_config(experiment.specs).items():
        for arm in arms.values() if "base" in arms else ():
            if feature := feature_off(arms["base"], arm):
                epochs = experiment.epochs
                own = epochs[(epochs["config"] == config) & (epochs["arm"] == arm.name) & (epochs["status"] == "ok")]
                rows = own[[*RUN_OF_BASE, "epoch", column]].rename(columns={column: "size"})
                parts.setdefault(feature, []).append(rows)
    return {feature: pd.concat(rows, ignore_index=True) for feature, rows in parts.items()}


def _is_on(epochs: pd.DataFrame, feature: str) -> bool:
    """A feature that no base member has on tells nothing about redundancy."""
    if feature.endswith("/on"):
        return False
    switch = f"{feature}/on"
    return switch not in epochs.columns or bool(epochs.loc[epochs["arm"] == "base", switch].astype(bool).any())


def silent_features(epochs: pd.DataFrame) -> list[str]:
    """Existing features that are recorded but off in every base member."""
    names = [name for name in epochs.columns if name.startswith("feature/") and not name.endswith("/on")]
    return [name.removeprefix("feature/") for name in names if not _is_on(epochs, name)]
