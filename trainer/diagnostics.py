"""HEALTH_DIAG: one line a member and epoch, the groups of the older trainer in their order.

`grad_split_bwd` and `grad_split_aux` are ratios of the magnitude branch's norm to the direction branch's, for sources
of the backward pass and of the aux operations; `grad_trunk` is absolute. The older trainer printed 0.0000 for a
component that never touches a branch, and it was read as "not wired". Here there are three zeros: `-` says that a
component cannot reach a slice (or that a ratio is 0/0), `gated:<slot>` that its gate is closed and which, `0` is a
measured zero. `n/a` was not measured: the epoch had no update, or the member is frozen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from trainer.components import FIXED, NINE, Component

STRUCTURAL, UNMEASURED, GATED = "-", "n/a", "gated"
ACTS = ("short", "flat", "long", "third", "two_thirds", "full")
PREDICTIVE = "pred"
Columns = dict[str, Any]


def health_line(columns: Columns, row: int, components: Iterable[Component]) -> str:
    """The line of the member in `row` of an epoch's columns; `components` are those of its pack."""
    known = {c.name: c for c in (*FIXED, *components)}
    extra = [name for name in known if name not in NINE]
    phases = {name: "aux_ops" if name in ("cql", PREDICTIVE) else known[name].phase for name in known}
    bwd = [name for name in NINE if phases.get(name, "aux_ops") != "aux_ops"]
    aux = [name for name in (*NINE, *extra) if name not in bwd]
    who = " ".join(f"{name}={columns[name][row]}" for name in ("epoch", "arm", "seed", "fold", "status"))
    groups = [
        group("grad_split_bwd", {n: _ratio(columns, known.get(n), row) for n in bwd}),
        group("grad_split_aux", {n: _ratio(columns, known.get(n), row) for n in aux}),
        group("grad_trunk", {n: _norm(columns, known.get(n), row) for n in (*NINE, *extra)}),
        group("gates", _gates(columns, row)),
        group("gems", _gems(columns, row)),
        group("act", {n: f"{columns[f'act/{n}'][row]:.3f}" for n in ACTS}),
        f"watchdog [{columns['watchdog'][row] or 'ok'}]",
    ]
    return f"HEALTH_DIAG {who} " + " ".join(groups)


def group(name: str, fields: dict[str, str]) -> str:
    return f"{name} [{' '.join(f'{key}={text}' for key, text in fields.items())}]"


def show(value: float) -> str:
    """`0` for an exact zero, `n/a` for NaN, else three digits in scientific notation."""
    if math.isnan(value):
        return UNMEASURED
    return "0" if value == 0 else f"{value:.3e}"


def _zero(columns: Columns, component: Component, row: int) -> str:
    """Name of the first gate that is closed, else a measured `0`."""
    if columns["updates"][row] == 0:
        return UNMEASURED
    if not component.gates:
        return "0"
    if component.gates[0].startswith("gem/"):  # a gem that is probed is measured like a wired one
        gem = component.gates[0].split("/")[1]
        return f"{GATED}:off" if columns[f"gem/{gem}/mode"][row] == "off" else "0"
    closed = [gate for gate in component.gates if columns[f"signal/{gate}"][row] == 0]
    return f"{GATED}:{closed[0]}" if closed else "0"


def _norm(columns: Columns, component: Component | None, row: int) -> str:
    if component is None or "trunk" not in component.reach:
        return UNMEASURED if component is None else STRUCTURAL
    value = float(columns[f"grad/{component.name}/trunk"][row])
    return _zero(columns, component, row) if value == 0 else show(value)


def _ratio(columns: Columns, component: Component | None, row: int) -> str:
    """|magnitude| / |direction|."""
    if component is None:
        return UNMEASURED
    if not {"magnitude", "direction"} <= set(component.reach):
        return STRUCTURAL
    parts = ("magnitude", "direction")
    magnitude, direction = (float(columns[f"grad/{component.name}/{part}"][row]) for part in parts)
    if direction == 0:
        closed = _zero(columns, component, row)
        return show(magnitude * math.inf) if magnitude else closed if closed.startswith(GATED) else STRUCTURAL
    return show(magnitude / direction)


def _gates(columns: Columns, row: int) -> dict[str, str]:
    """State of everything that opens, closes or scales a gradient."""
    signal = {
        name: float(columns[f"signal/{name}"][row])
        for name in ("distill_alpha", "learning_health", "distill_health_on", "distill_alpha_max")
    }
    trigger = signal["learning_health"] < signal["distill_health_on"] and signal["distill_alpha_max"] > 0
    numbers = {
        "health": "signal/learning_health",
        "q_gap": "q_gap",
        "peak": "signal/q_gap_peak",
        "floor": "signal/q_gap_floor",
    }
    return {
        "iqn_readiness": show(float(columns["signal/iqn_readiness"][row])),
        "distill": "on" if signal["distill_alpha"] > 0 else "off",
        "alpha": show(signal["distill_alpha"]),
        "trigger": "on" if trigger else "off",
        **{short: show(float(columns[name][row])) for short, name in numbers.items()},
        "snap_epoch": str(columns["counter/snapshot_epoch"][row]),
        "accepted": str(columns["counter/snapshots_accepted"][row]),
        "budget": show(float(columns["coefficient/c51_bs"][row])),
        "clip": show(float(columns["grad/clip_factor"][row])),
    }


def _gems(columns: Columns, row: int) -> dict[str, str]:
    """Value of each gem; `off` where the arm leaves it out."""
    found = {}
    for name in [n.split("/")[1] for n in columns if n.startswith("gem/") and n.endswith("/value")]:
        off = columns[f"gem/{name}/mode"][row] == "off"
        found[name] = "off" if off else show(float(columns[f"gem/{name}/value"][row]))
    return found
