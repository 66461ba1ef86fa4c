"""Signs of collapse, and the alarms of the watchdog: which runs, since when, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.load import Experiment
from analysis.text import plain

EDGE_LIMIT = 0.05  # probability on the two end atoms above which the support is too narrow
MEANINGS = {
    "INERT": "it was switched on for 3 epochs and its gradient on the trunk was exactly 0: it does nothing",
    "STUCK": "it kept every bit for 5 epochs while what it is computed from moved: it is not computed any more",
    "OVERRIDDEN": "it was written by something else than its own function",
}
# Column and its name for people.
GAUGES = {
    "dormant/first": "dormant units, first layer",
    "dormant/trunk": "dormant units, trunk",
    "dormant/value_hidden": "dormant units, value head",
    "dormant/direction_hidden": "dormant units, direction branch",
    "dormant/magnitude_hidden": "dormant units, magnitude branch",
    "entropy/direction": "entropy of the greedy direction, train states",
    "entropy/magnitude": "entropy of the greedy size, train states",
    "act/direction_entropy": "entropy of the direction, validation walk",
    "act/magnitude_entropy": "entropy of the size, validation walk",
    "act/short": "share of bars short",
    "act/flat": "share of bars flat",
    "act/long": "share of bars long",
    "act/third": "share of held bars at a third",
    "act/two_thirds": "share of held bars at two thirds",
    "act/full": "share of held bars at full size",
    "act/hold_distance": "distance of the exposure from buying and holding",
    "edge_mass": "mass on the two end atoms",
    "signal/learning_health": "learning health: Q-gap / its peak",
    "counter/snapshots_accepted": "snapshots accepted",
}


@dataclass(frozen=True)
class Alarm:
    """One kind of alarm in one arm of one configuration. `first`: the earliest epoch that has it."""

    text: str
    config: str
    arm: str
    runs: int
    of: int
    first: int

    def line(self) -> str:
        where = f"{self.config}, arm {self.arm}"
        return f"watchdog: {self.text} in {self.runs} of {self.of} runs of {where}, first at epoch {self.first}"

    @property
    def meaning(self) -> str:
        return MEANINGS.get(self.text.split()[0], "")


@dataclass(frozen=True)
class Gauge:
    """Median, lowest and highest value of the base runs at the last epoch; `remark` says what is out of bounds."""

    name: str
    median: float
    low: float
    high: float
    remark: str = ""


def alarms(experiment: Experiment) -> list[Alarm]:
    """Every alarm that was recorded, by configuration, arm and text; empty when there is none or no record of it."""
    epochs = experiment.epochs
    if "watchdog" not in epochs.columns:
        return []
    run = ["config", "arm", "trial", "seed", "fold"]
    rows = epochs[epochs["watchdog"].fillna("") != ""]
    each = rows.assign(text=rows["watchdog"].str.split("; ")).explode("text")
    found = []
    for (config, arm, text), group in each.groupby(["config", "arm", "text"], sort=True):
        members = epochs[(epochs["config"] == config) & (epochs["arm"] == arm)]
        counts = len(group[run].drop_duplicates()), len(members[run].drop_duplicates())
        found.append(Alarm(str(text), str(config), str(arm), *counts, int(group["epoch"].min())))
    return found


def collapse_gauges(experiment: Experiment) -> list[Gauge]:
    """What the last epoch of every base run that still trains shows; only what was recorded."""
    epochs = experiment.epochs
    if not {"arm", "epoch"} <= set(epochs.columns):
        return []
    base = epochs[(epochs["arm"] == "base") & (epochs["status"] == "ok") & (epochs["epoch"] > 0)]
    last = base.sort_values("epoch").groupby(["trial", "seed", "fold"]).tail(1)
    return [_gauge(last[column].dropna(), column) for column in GAUGES if column in last and last[column].notna().any()]


def _gauge(values: pd.Series, column: str) -> Gauge:
    remark, values = "", values + 0.0  # an entropy of -0 is 0
    if column == "edge_mass" and values.max() > EDGE_LIMIT:
        over = int((values > EDGE_LIMIT).sum())
        remark = f"above {plain(EDGE_LIMIT)} in {over} of {len(values)} runs: raise trainer.network.v_max"
    return Gauge(GAUGES[column], float(values.median()), float(values.min()), float(values.max()), remark)
