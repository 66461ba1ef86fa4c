"""Gradient norms of the base members by component and slice, as a table that keeps the kinds of zero apart."""

from __future__ import annotations

import pandas as pd

from analysis.health import closed_gate
from analysis.load import Experiment
from analysis.page import Column, Markup, element, table
from analysis.text import ABSENT

LATE = 5  # epochs
ABOUT = (
    f"Median norm over base members and the last {LATE} epochs of each. - : the component cannot reach the slice. n/a: "
    "not measured. 0 exact: it can, and the gradient is exactly zero. c51 and cql are raw, c51_bs and cql_sx what is "
    "applied of them; gem rows are measured, not applied, unless wired."
)


def norm_matrix(experiment: Experiment) -> list[Markup]:
    """The table and how to read it, or why there is none."""
    gradients = experiment.gradients
    gradients = gradients[gradients["arm"] == "base"]
    if gradients.empty:
        return [element("p", "Nothing has been recorded yet.")]
    measured = gradients[gradients["zero"] != "unmeasured"]
    if measured.empty:
        return [element("p", "No gradient has been measured yet.")]
    cells = late_norms(measured)
    components, slices = (list(dict.fromkeys(cells.index.get_level_values(level))) for level in (0, 1))
    gates = {name: closed_gate(experiment, name) for name in components}
    rows = [
        (element("strong", name), *(norm_text(cells, name, part, gates[name]) for part in slices))
        for name in components
    ]
    norms = table([Column("component", "text"), *(Column(part, "n") for part in slices)], rows)
    return [norms, element("p", ABOUT + about_gates(cells, gates, slices), class_="muted")]


def about_gates(cells: pd.DataFrame, gates: dict[str, str], slices: list[str]) -> str:
    """Which components are shut, and which were until their gate closed."""
    shut: list[str] = []
    former: list[str] = []
    for name, gate in gates.items():
        if gate:
            texts = {norm_text(cells, name, part, gate) for part in slices}
            (shut if "gated" in texts else former).append(f"{name} by {gate}")
    text = f" gated: exactly zero behind a gate that is closed at the last epoch ({', '.join(shut)})." if shut else ""
    if former:
        text += f" Closed at the last epoch, so that these norms are of the epochs before: {', '.join(former)}."
    return text


def late_norms(measured: pd.DataFrame) -> pd.DataFrame:
    """(component, slice) -> norm, the median of each trial's last epochs, and structural; of rows of
    `Experiment.gradients`."""
    last = measured[measured["epoch"] > measured.groupby("trial")["epoch"].transform("max") - LATE]
    return last.groupby(["component", "slice"], sort=False).agg(
        norm=("norm", "median"), structural=("zero", lambda kinds: bool((kinds == "structural").all()))
    )


def norm_text(cells: pd.DataFrame, component: str, part: str, gate: str = "") -> str:
    """One cell; `gate` is the closed gate of the component, "" for none."""
    if (component, part) not in cells.index:
        return ABSENT
    if cells.loc[(component, part), "structural"]:
        return "-"
    norm = float(cells.loc[(component, part), "norm"])
    if norm == 0.0:
        return "gated" if gate else "0 exact"
    return f"{norm:.2e}"
