"""Pairs of runs that differ in one gem: probed in the base arm, wired in another arm, everything else equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.arms import arms_by_config, wired_gem
from analysis.frames import FINISHED
from analysis.scores import RUN
from trainer.config import TrialSpec

COLUMNS = [
    "gem", "trial", "config", "seed", "launch", "dose", "control", "treatment", "failed_control", "failed_treatment",
    "cause", "final",
]  # fmt: skip


@dataclass(frozen=True)
class _End:
    """How the trials of a run ended."""

    final: bool
    cause: str
    lost: bool


def _ends(members: pd.DataFrame) -> dict[tuple[str, str, int], _End]:
    found = {}
    for (config, arm, seed), rows in members.groupby(RUN, sort=False):
        final = bool(rows["trial_status"].isin([*FINISHED, "failed"]).all())
        causes = sorted({str(cause) for cause in rows["cause"] if cause})
        found[config, arm, seed] = _End(final, ", ".join(causes), bool(rows["trial_status"].eq("failed").any()))
    return found


def pairs_frame(
    specs: Iterable[TrialSpec], scores: pd.DataFrame, members: pd.DataFrame, names: Mapping[str, str]
) -> pd.DataFrame:
    """One row per gem, dose, configuration and seed with a wired arm; without one empty, with the same columns.

    gem: its name, from `names` by the reference that the plan gives; control, treatment: scores (annualised Sharpe) of
    the base and the wired run; failed_*: that run froze or went bankrupt and stands at the floor; final: neither trial
    will change any more; cause: why a final pair is no evidence, "" when it is or is not final; difference/fold<k>:
    treatment - control of fold k alone.
    """
    found = {}
    for config, arms in arms_by_config(specs).items():
        for arm in arms.values() if "base" in arms else ():
            if wired := wired_gem(arms["base"], arm):
                found[config, arm.name] = names.get(wired[0], wired[0]), wired[1]
    runs = scores.set_index(["config", "arm", "seed"])
    rows, ends = [], _ends(members)
    for (config, arm, seed), treated in runs.iterrows():
        if (config, arm) not in found or (config, "base", seed) not in runs.index:
            continue
        gem, dose = found[config, arm]
        control = runs.loc[(config, "base", seed)]
        sides = [ends[config, name, seed] for name in ("base", arm)]
        final = all(end.final for end in sides)
        # A run that froze before its pack was lost has a score, the floor: kept, it would count where others vanish.
        lost = pd.isna(control["sharpe"]) or pd.isna(treated["sharpe"]) or any(end.lost for end in sides)
        cause = ", ".join(sorted({end.cause or "no score" for end in sides if end.lost})) or "no score"
        rows.append(
            (gem, treated["trial"], config, seed, treated["launch"], dose, control["sharpe"],
             treated["sharpe"], bool(control["failed"]), bool(treated["failed"]), cause * (lost and final), final)
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame = frame.merge(_by_fold(found, members), how="left", on=["config", "dose", "gem", "seed"]) if rows else frame
    return frame.sort_values(["gem", "dose", "launch", "seed"], ignore_index=True)


def _by_fold(found: Mapping[tuple[str, str], tuple[str, float]], members: pd.DataFrame) -> pd.DataFrame:
    """config, gem, dose, seed, difference/fold<k>: of each fold's own judge Sharpe."""
    scores = members.set_index([*RUN, "fold"])["judge_sharpe"]
    base = scores.xs("base", level="arm")
    rows = []
    for (config, arm), (gem, dose) in found.items():
        own = scores.xs((config, arm), level=("config", "arm")) - base.xs(config, level="config")
        table = own.unstack("fold").add_prefix("difference/fold").reset_index()
        rows.append(table.assign(config=config, gem=gem, dose=dose))
    return pd.concat(rows, ignore_index=True).rename_axis(columns=None)
