"""HEALTH_DIAG: one line a member and epoch, the groups of the older trainer in their order.

`grad_split_bwd` and `grad_split_aux` are ratios of the magnitude branch's norm to the direction branch's, for sources
of the backward pass and of the aux operations; `grad_trunk` is absolute. The older trainer printed 0.0000 for a
component that never touches a branch, and it was read as "not wired". Here `-` says that a component cannot reach a
slice (or that a ratio is 0/0), `0` is a measured zero, and `n/a` was not measured: the component is not in this build,
the epoch had no update, or the member is frozen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainer.components import AUXILIARY, NINE

STRUCTURAL, UNMEASURED = "-", "n/a"
ACTS = ("short", "flat", "long", "third", "two_thirds", "full")
Reach = Mapping[str, tuple[str, ...]]


def health_line(columns: dict[str, Any], row: int, reach: Reach) -> str:
    """The line of the member in `row` of an epoch's columns; `reach` names the slices each component can write."""
    who = " ".join(f"{name}={columns[name][row]}" for name in ("epoch", "arm", "seed", "fold", "status"))
    extra = [name for name in reach if name not in NINE]
    aux = [name for name in NINE if name in AUXILIARY] + extra
    groups = [
        group("grad_split_bwd", {n: _ratio(columns, n, row, reach) for n in NINE if n not in AUXILIARY}),
        group("grad_split_aux", {n: _ratio(columns, n, row, reach) for n in aux}),
        group("grad_trunk", {n: _norm(columns, n, row, reach) for n in (*NINE, *extra)}),
        group("gates", _gates(columns, row)),
        group("gems", _gems(columns, row)),
        group("act", {n: f"{columns[f'act/{n}'][row]:.3f}" for n in ACTS}),
    ]
    return f"HEALTH_DIAG {who} " + " ".join(groups)


def group(name: str, fields: dict[str, str]) -> str:
    return f"{name} [{' '.join(f'{key}={text}' for key, text in fields.items())}]"


def show(value: float) -> str:
    """`0` for an exact zero, `n/a` for NaN, else three digits in scientific notation."""
    if math.isnan(value):
        return UNMEASURED
    return "0" if value == 0 else f"{value:.3e}"


def _norm(columns: dict[str, Any], component: str, row: int, reach: Reach) -> str:
    if component not in reach:
        return UNMEASURED
    return show(float(columns[f"grad/{component}/trunk"][row])) if "trunk" in reach[component] else STRUCTURAL


def _ratio(columns: dict[str, Any], component: str, row: int, reach: Reach) -> str:
    """|magnitude| / |direction|."""
    if component not in reach:
        return UNMEASURED
    if not {"magnitude", "direction"} <= set(reach[component]):
        return STRUCTURAL
    magnitude, direction = (float(columns[f"grad/{component}/{part}"][row]) for part in ("magnitude", "direction"))
    if direction == 0:
        return STRUCTURAL if magnitude == 0 else show(magnitude * math.inf)
    return show(magnitude / direction)


def _gates(columns: dict[str, Any], row: int) -> dict[str, str]:
    names = {
        "health": "signal/learning_health",
        "q_gap": "q_gap",
        "peak": "signal/q_gap_peak",
        "floor": "signal/q_gap_floor",
        "budget": "grad/c51_budget",
        "clip": "grad/clip_factor",
    }
    return {short: show(float(columns[name][row])) for short, name in names.items()}


def _gems(columns: dict[str, Any], row: int) -> dict[str, str]:
    """Value of each gem; `off` where the arm leaves it out."""
    found = {}
    for name in [n.split("/")[1] for n in columns if n.startswith("gem/") and n.endswith("/value")]:
        off = columns[f"gem/{name}/mode"][row] == "off"
        found[name] = "off" if off else show(float(columns[f"gem/{name}/value"][row]))
    return found
