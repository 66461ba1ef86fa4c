"""HEALTH_DIAG: one line a member and epoch, the groups of the older trainer in their order.

`grad_split_bwd` and `grad_split_aux` are ratios of the magnitude branch's norm to the direction branch's, for sources
of the backward pass and of the aux operations; `grad_trunk` is absolute. The older trainer printed 0.0000 for a
component that never touches a branch, and it was read as "not wired": here `-` says that a component cannot reach a
slice.
"""

from __future__ import annotations

import math
from typing import Any

from trainer.components import AUXILIARY, NINE
from trainer.health import group, show


def health_line(columns: dict[str, Any], row: int) -> str:
    """The line of the member in `row` of an epoch's columns."""
    who = " ".join(f"{name}={columns[name][row]}" for name in ("epoch", "arm", "seed", "fold", "status"))
    rows = [name.split("/")[1] for name in columns if name.startswith("grad/") and name.endswith("/trunk")]
    extra = [name for name in rows if name not in NINE]
    aux = [name for name in NINE if name in AUXILIARY] + extra
    groups = [
        group("grad_split_bwd", {n: show(_ratio(columns, n, row)) for n in NINE if n not in AUXILIARY}),
        group("grad_split_aux", {n: show(_ratio(columns, n, row)) for n in aux}),
        group("grad_trunk", {n: show(_value(columns, f"grad/{n}/trunk", row)) for n in (*NINE, *extra)}),
        group("gates", _gates(columns, row)),
        group("gems", _gems(columns, row)),
        group("act", {n: f"{_value(columns, f'act/{n}', row):.3f}" for n in _ACTS}),
    ]
    return f"HEALTH_DIAG {who} " + " ".join(groups)


_ACTS = ("short", "flat", "long", "third", "two_thirds", "full")


def _value(columns: dict[str, Any], name: str, row: int) -> float:
    return float(columns[name][row]) if name in columns else math.nan


def _ratio(columns: dict[str, Any], component: str, row: int) -> float:
    """|magnitude| / |direction|; 0/0 and unreachable slices are structural."""
    magnitude = _value(columns, f"grad/{component}/magnitude", row)
    direction = _value(columns, f"grad/{component}/direction", row)
    if direction == 0:
        return math.nan if magnitude == 0 else magnitude * math.inf
    return magnitude / direction


def _gates(columns: dict[str, Any], row: int) -> dict[str, str]:
    names = {"health": "learning_health", "q_gap": "q_gap", "peak": "q_gap_peak", "floor": "q_gap_floor"}
    gates = {short: show(_value(columns, f"signal/{slot}", row)) for short, slot in names.items()}
    gates["budget"] = show(_value(columns, "grad/c51_budget", row))
    gates["clip"] = show(_value(columns, "grad/clip_factor", row))
    return gates


def _gems(columns: dict[str, Any], row: int) -> dict[str, str]:
    """Value of each gem; `off` where the arm leaves it out."""
    found = {}
    for name in [n.split("/")[1] for n in columns if n.startswith("gem/") and n.endswith("/value")]:
        off = columns[f"gem/{name}/mode"][row] == "off"
        found[name] = "off" if off else show(_value(columns, f"gem/{name}/value", row))
    return found
