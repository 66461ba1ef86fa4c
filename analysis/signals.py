"""The evidence of stage 1: sizes of one gem in the base arm, with the existing features beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.frames import FINISHED, MEMBER
from analysis.load import Experiment


def signals(experiment: Experiment, gem: str) -> pd.DataFrame:
    """One row per base member and recorded epoch of `gem`; a member without any record has one row, epoch -1.

    Columns: gem, trial, config, seed, fold, launch, epoch, remaining (epochs to come), status, final (its trial will
    not change any more), absent (why a trial failed and is no evidence), mode, size (|coef grad| / |c51_bs|
    over the slices that C51 reaches), value, size/<slice>, feature/<name> (only features that are on somewhere).
    Raises KeyError for an unknown gem.
    """
    if gem not in experiment.gems:
        raise KeyError(f"no gem {gem!r} in {experiment.path}; measured are {experiment.gems}")
    members = experiment.members[experiment.members["arm"] == "base"]
    keys = members[[*MEMBER, "config", "launch"]].assign(gem=gem)
    keys["final"] = members["trial_status"].isin([*FINISHED, "failed"])
    keys["absent"] = members["cause"]
    frame = keys.merge(_sizes(experiment.epochs, gem), how="left", on=MEMBER)
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
