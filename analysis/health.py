"""The state of training in a few lines: medians over the base members, first measured epoch against the last."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.frames import structural_columns
from analysis.gates import GATES
from analysis.load import Experiment
from analysis.text import ABSENT

GAUGES = ("loss/c51", "q_gap", "edge_mass", "grad/applied", "grad/clip_factor", "coefficient/c51_bs")
ACTIONS = ("short", "flat", "long", "third", "two_thirds", "full")


def health_curves(experiment: Experiment, columns: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """For each recorded column: epoch -> low, median, high (quartiles over base members that are not frozen)."""
    if "arm" not in experiment.epochs.columns:
        return {}
    rows = experiment.epochs[(experiment.epochs["arm"] == "base") & (experiment.epochs["status"] == "ok")]
    found = {}
    for column in columns:
        if column in rows.columns and rows[column].notna().any():
            quartiles = rows.groupby("epoch")[column].quantile([0.25, 0.5, 0.75]).unstack().dropna(how="all")
            found[column] = quartiles.set_axis(["low", "median", "high"], axis=1)
    return found


def health_lines(experiment: Experiment) -> list[str]:
    """HEALTH lines as text: medians of the base members at the first epoch -> the last, or at the last alone.

    `-` cannot reach, `gated:<slot>` closed, `n/a` not measured, `0` exactly zero.
    """
    columns = tuple(name for name in experiment.epochs.columns if name.startswith("grad/") and name.endswith("/trunk"))
    curves = health_curves(experiment, (*GAUGES, *columns))
    lines = []
    gauges = [f"{name}={_first_last(curves[name])}" for name in GAUGES if name in curves]
    lines += _lines("HEALTH", gauges, 3)
    shares = [f"{name}={share:.2f}" for name, share in action_shares(experiment).items()]
    lines += _lines("HEALTH act", shares, 6)
    structural = structural_columns(experiment.epochs)
    trunk = [
        f"{name.split('/')[1]}={'-' if name in structural else _trunk(experiment, curves, name)}" for name in columns
    ]
    return lines + _lines("HEALTH grad_trunk", trunk, 3)


def action_shares(experiment: Experiment) -> dict[str, float]:
    """Mean share of each direction and magnitude over the healthy base members at their last epoch; each sums to 1."""
    rows = experiment.epochs
    if not len(rows) or f"act/{ACTIONS[0]}" not in rows.columns:
        return {}
    rows = rows[(rows["arm"] == "base") & (rows["status"] == "ok")]
    last = rows[rows["epoch"] == rows.groupby("trial")["epoch"].transform("max")]
    return {name: float(last[f"act/{name}"].mean()) for name in ACTIONS if last[f"act/{name}"].notna().any()}


def closed_gate(experiment: Experiment, component: str) -> str:
    """The first gate of `component` that is closed in most base runs at the last epoch; "" when none is."""
    slots = [f"signal/{slot}" for slot in GATES.get(component, ())]
    gates = health_curves(experiment, tuple(slots))
    closed = [slot for slot in slots if slot in gates and gates[slot]["median"].iloc[-1] == 0]
    return closed[0].removeprefix("signal/") if closed else ""


def _trunk(experiment: Experiment, curves: dict[str, pd.DataFrame], column: str) -> str:
    """Median norm of a component at the last epoch; where it is 0, the gate that is closed."""
    text = _last(curves.get(column))
    gate = closed_gate(experiment, column.split("/")[1]) if text == "0" else ""
    return f"gated:{gate}" if gate else text


def _first_last(curve: pd.DataFrame) -> str:
    first, last = curve["median"].iloc[0], curve["median"].iloc[-1]
    return f"{_show(first)}->{_show(last)}"


def _last(curve: pd.DataFrame | None) -> str:
    return ABSENT if curve is None else _show(curve["median"].iloc[-1])


def _show(value: float) -> str:
    if np.isnan(value):
        return ABSENT
    return "0" if value == 0.0 else f"{value:.3g}"


def _lines(group: str, items: list[str], width: int) -> list[str]:
    return [f"{group} [{' '.join(items[start : start + width])}]" for start in range(0, len(items), width)]
