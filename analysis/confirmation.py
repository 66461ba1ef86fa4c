"""Does what was promoted hold on bars that no one has looked at? One look, all promoted gems together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import t

from analysis.load import Experiment
from analysis.rules import planned_rules
from analysis.text import signed, signed_interval

Label = Literal["CONFIRMED", "NOT CONFIRMED", "INCOMPLETE"]
FEWEST = 3  # configurations with both arms, for a standard deviation that means something


@dataclass(frozen=True)
class Confirmation:
    """`estimate`: mean over configurations of joint minus base score, annualised Sharpe; `interval`: two-sided, its
    lower end the one-sided bound that decides; `look`: which opening of the hold-out this is; `absent`: configurations
    without a difference, with the reason."""

    label: Label
    reason: str
    gems: tuple[str, ...]
    n: int
    estimate: float
    interval: tuple[float, float]
    look: int
    failed_base: int
    failed_joint: int
    absent: tuple[str, ...]

    def lines(self) -> list[str]:
        """For the terminal."""
        opened = f"hold-out opened for the {ordinal(self.look)} time"
        failures = f"failed runs: {self.failed_base} of the base arm, {self.failed_joint} with the gems wired"
        return [f"{self.label}: {', '.join(self.gems)}: {self.reason}", f"{opened}; {failures}", *self.absent]


def confirmation(experiment: Experiment) -> Confirmation | None:
    """The outcome of a `gemsweep confirm`; None for any other experiment.

    CONFIRMED when the lower bound of the mean difference, one-sided at the level alpha of the plan's rules divided by
    the number of times this hold-out was opened, lies above 0. The unit is a configuration: its differences are
    averaged over seeds. A run that fails by itself scores the floor; a configuration that a machine lost is absent.
    """
    purpose = experiment.plan.get("confirmation")
    if not purpose:
        return None
    joint, look, planned = str(purpose["arm"]), int(purpose["look"]), int(purpose["configurations"])
    scores = experiment.scores
    base, wired = (scores[scores["arm"] == arm].set_index(["config", "seed"]) for arm in ("base", joint))
    units, absent = _differences(base, wired)
    alpha = planned_rules(experiment.plan).alpha / look
    low, mean, high = _interval(units, alpha)
    open_trials = int(experiment.trials["status"].isin(["running", "waiting"]).sum())
    label, reason = _verdict(low, mean, high, len(units), planned, open_trials, alpha)
    return Confirmation(
        label=label, reason=reason, gems=tuple(purpose["gems"]), n=len(units), estimate=mean, interval=(low, high),
        look=look, failed_base=int(base["failed"].sum()), failed_joint=int(wired["failed"].sum()), absent=absent,
    )  # fmt: skip


def _differences(base: pd.DataFrame, wired: pd.DataFrame) -> tuple[np.ndarray, tuple[str, ...]]:
    """Mean difference of every configuration that has one, and the others with the reason."""
    difference = (wired["sharpe"] - base["sharpe"]).rename("difference").reset_index()
    units, absent = [], []
    for config, rows in difference.groupby("config", sort=False):
        values = rows["difference"].dropna()
        if len(values):
            units.append(float(values.mean()))
        else:
            absent.append(f"{config}: no seed has a score in both arms")
    return np.array(units), tuple(absent)


def _interval(units: np.ndarray, alpha: float) -> tuple[float, float, float]:
    if len(units) < FEWEST:
        return float("nan"), float(units.mean()) if len(units) else float("nan"), float("nan")
    half = float(t.isf(alpha, len(units) - 1) * units.std(ddof=1) / np.sqrt(len(units)))
    mean = float(units.mean())
    return mean - half, mean, mean + half


def _verdict(
    low: float, mean: float, high: float, n: int, planned: int, open_trials: int, alpha: float
) -> tuple[Label, str]:
    if open_trials:
        return "INCOMPLETE", f"{open_trials} trials are not finished; a look before the end would count as another look"
    if not np.isfinite(low):
        return "INCOMPLETE", f"{n} of {planned} configurations have both arms; {FEWEST} are needed"
    found = (
        f"Sharpe {signed(mean)} {signed_interval(low, high)} on the hold-out, {n} configurations, one-sided {alpha:g}"
    )
    if low > 0.0:
        return "CONFIRMED", found
    return "NOT CONFIRMED", f"{found}: a gain is not shown"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
