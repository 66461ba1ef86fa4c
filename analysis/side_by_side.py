"""`gemsweep diag`: one group of HEALTH_DIAG, trials side by side, epoch by epoch, medians over the base members.

The three zeros stay apart, as in the log: structural, gated, exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis.frames import structural_columns
from analysis.gates import closed_gates
from analysis.load import Experiment
from analysis.tables import varied_settings
from analysis.text import ABSENT, percent, setting

NINE = ("iqn", "ens", "c51", "cql", "distill", "rec", "pred", "cql_sx", "c51_bs")  # the order of HEALTH_DIAG
GEM_OF = {"pred": "g12_predictive"}  # the component of a gem is called gem:<gem>, but for this one
NUMBERS = {
    "iqn_readiness": "signal/iqn_readiness", "alpha": "signal/distill_alpha", "health": "signal/learning_health",
    "q_gap": "q_gap", "peak": "signal/q_gap_peak", "floor": "signal/q_gap_floor",
    "snap_epoch": "counter/snapshot_epoch", "accepted": "counter/snapshots_accepted", "budget": "coefficient/c51_bs",
    "clip": "grad/clip_factor",
}  # fmt: skip
COUNTS = ("snap_epoch", "accepted")
WIDEST = 100  # of text; tables take what there is
FIRST = 20  # characters of the first column
ABOUT = (
    "Medians over the base members that are not frozen. - : structural, the component cannot reach the trunk; gated: "
    "exactly zero behind a closed gate; 0: measured, and exactly zero; n/a: not measured."
)
Mark = Literal["value", "structural", "gated", "exact", "unmeasured"]


@dataclass(frozen=True)
class Cell:
    """One trial at one epoch. value: the median, NaN where there is none; of on and off, the share of members that is
    on. gate: what closes it, "" unless gated."""

    trial: str
    epoch: int
    value: float
    mark: Mark
    gate: str = ""


@dataclass(frozen=True)
class Field:
    """One field of the group, by trial in launch order, then by epoch. share: on or off in a member, so its values are
    shares of members."""

    name: str
    share: bool
    cells: tuple[Cell, ...]

    @property
    def gates(self) -> tuple[str, ...]:
        """All that closed it somewhere."""
        return tuple(dict.fromkeys(cell.gate for cell in self.cells if cell.gate))


@dataclass(frozen=True)
class SideBySide:
    """A group of HEALTH_DIAG. settings: trial -> the hyperparameters that differ between trials, as text."""

    name: str
    group: str
    trials: tuple[str, ...]
    settings: dict[str, str]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class _Column:
    """A field before medians, a row a member and epoch. closed: what closes it there, "" for nothing."""

    values: pd.Series
    closed: pd.Series | None = None
    structural: bool = False
    share: bool = False


def side_by_side(experiment: Experiment, group: str) -> SideBySide:
    """The fields of `group`, one of GROUPS. Errors: ValueError for another name."""
    if group not in GROUPS:
        raise ValueError(f"group {group!r} is not one of {', '.join(GROUPS)}")
    epochs = experiment.epochs
    rows = epochs[(epochs["arm"] == "base") & (epochs["status"] == "ok")]
    order = list(experiment.trials["trial"])
    fields = [_field(name, rows, column, order) for name, column in GROUPS[group](rows)] if len(rows) else []
    return SideBySide(experiment.name, group, tuple(order), _settings(experiment), tuple(fields))


def _settings(experiment: Experiment) -> dict[str, str]:
    names = varied_settings(experiment)
    rows = experiment.trials.set_index("trial")[names].iterrows()
    return {
        str(trial): "  ".join(f"{name.removeprefix('config/')}={setting(row[name])}" for name in names)
        for trial, row in rows
    }


def _trunk(rows: pd.DataFrame) -> Iterator[tuple[str, _Column]]:
    """Norms on the trunk, in the order of the log."""
    recorded = [name.split("/")[1] for name in rows.columns if name.startswith("grad/") and name.endswith("/trunk")]
    unreachable = structural_columns(rows)
    for name in sorted(recorded, key=lambda name: NINE.index(name) if name in NINE else len(NINE)):
        column = f"grad/{name}/trunk"
        yield name, _Column(rows[column], _closed(rows, name), column in unreachable)


def _closed(rows: pd.DataFrame, component: str) -> pd.Series:
    """The closed gate of a component; "off" where the arm leaves the gem out. Before the first update none counts."""
    gem = GEM_OF.get(component, component.removeprefix("gem:") if component.startswith("gem:") else "")
    if f"gem/{gem}/mode" in rows:
        return _off(rows, gem)
    return closed_gates(rows, component).where(rows["epoch"] > 0, "")


def _off(rows: pd.DataFrame, gem: str) -> pd.Series:
    return rows[f"gem/{gem}/mode"].eq("off").map({True: "off", False: ""})


def _gems(rows: pd.DataFrame) -> Iterator[tuple[str, _Column]]:
    """Value of each auxiliary loss."""
    columns = [name for name in rows.columns if name.startswith("gem/") and name.count("/") == 2]
    for name in (column.split("/")[1] for column in columns if column.endswith("/value")):
        yield name, _Column(rows[f"gem/{name}/value"], _off(rows, name))


def _gates(rows: pd.DataFrame) -> Iterator[tuple[str, _Column]]:
    """What opens, closes or scales a gradient."""
    signal = {name.removeprefix("signal/"): rows[name] for name in rows.columns if name.startswith("signal/")}
    for name, column in NUMBERS.items():
        if name == "alpha" and "distill_alpha" in signal:
            yield "distill", _Column(signal["distill_alpha"].gt(0.0), share=True)
        if name == "health" and {"distill_health_on", "distill_alpha_max", "learning_health"} <= set(signal):
            low = signal["learning_health"].lt(signal["distill_health_on"]) & signal["distill_alpha_max"].gt(0.0)
            yield "trigger", _Column(low, share=True)
        if column in rows:
            yield name, _Column(rows[column])


GROUPS: dict[str, Callable[[pd.DataFrame], Iterator[tuple[str, _Column]]]] = {
    "gems": _gems,
    "grad_trunk": _trunk,
    "gates": _gates,
}


def _field(name: str, rows: pd.DataFrame, column: _Column, order: Sequence[str]) -> Field:
    closed = column.closed if column.closed is not None else pd.Series("", index=rows.index)
    table = rows[["trial", "epoch"]].assign(value=column.values.astype(float), gate=closed, shut=closed.ne(""))
    groups = table.groupby(["trial", "epoch"])
    found = groups.agg(value=("value", "mean" if column.share else "median"), shut=("shut", "mean")).sort_index()
    gates = table[table["shut"]].groupby(["trial", "epoch"])["gate"].agg(lambda own: own.value_counts().index[0])
    cells = [
        _cell(str(key[0]), int(key[1]), value, str(gates.get(key, "")) if shut > 0.5 else "", column.structural)
        for key, value, shut in zip(found.index, found["value"], found["shut"], strict=True)
    ]
    return Field(name, column.share, tuple(sorted(cells, key=lambda cell: (order.index(cell.trial), cell.epoch))))


def _cell(trial: str, epoch: int, value: float, gate: str, structural: bool) -> Cell:
    if structural:
        return Cell(trial, epoch, float("nan"), "structural")
    if gate and (value == 0.0 or gate == "off"):
        return Cell(trial, epoch, 0.0 if value == 0.0 else float("nan"), "gated", gate)
    if np.isnan(value):
        return Cell(trial, epoch, value, "unmeasured")
    return Cell(trial, epoch, value, "exact" if value == 0.0 else "value")


def print_side_by_side(found: SideBySide, console: Console, every: int = 1) -> None:
    """A table a field, a row an epoch, a column a trial; as many trials abreast as the console holds. `every`: only
    each so many epochs, and the last of each trial."""
    console.print(Text(f"{found.name}: {found.group}", style="bold"))
    for trial in found.trials:
        console.print(Text(f"  {trial}  {found.settings[trial]}", style="dim"), soft_wrap=True)
    if not found.fields:
        console.print("nothing has been recorded yet", style="dim")
    for field in found.fields:
        console.print()
        for block in _blocks(found.trials, console.width):
            console.print(_table(field, block, every))
        if field.gates:
            console.print(Text(f"gated by {', '.join(field.gates)}", style="dim"))
    if found.group == "grad_trunk":
        console.print(Text(f"\n{ABOUT}", style="dim"), width=min(console.width, WIDEST))


def _blocks(trials: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    widest = max(len(trial) for trial in trials) + 2
    abreast = max(1, (width - FIRST - 2) // widest)
    for start in range(0, len(trials), abreast):
        yield trials[start : start + abreast]


def _table(field: Field, trials: Sequence[str], every: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(
        Text(field.name, style="bold not dim"), justify="right", min_width=FIRST, max_width=FIRST, no_wrap=True
    )
    for trial in trials:
        table.add_column(escape(trial), justify="right", no_wrap=True)
    cells = {(cell.trial, cell.epoch): cell for cell in field.cells if cell.trial in trials}
    last = {cell.trial: cell.epoch for cell in field.cells}  # cells are in order of epochs
    for epoch in sorted({epoch for trial, epoch in cells if epoch % every == 0 or epoch == last[trial]}):
        table.add_row(str(epoch), *(_shown(field, cells.get((trial, epoch))) for trial in trials))
    return table


def _shown(field: Field, cell: Cell | None) -> Text:
    if cell is None:
        return Text("")
    marks = {"structural": "-", "gated": "gated", "unmeasured": ABSENT}
    if cell.mark in marks:
        return Text(marks[cell.mark], style="dim" if cell.mark != "gated" else "yellow")
    if field.share:
        return Text({0.0: "off", 1.0: "on"}.get(cell.value) or percent(cell.value))
    if cell.mark == "exact":
        return Text("0", style="bold")
    return Text(f"{cell.value:g}" if field.name in COUNTS else f"{cell.value:.3e}")
