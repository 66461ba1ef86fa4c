"""The wiring of the trainer as it is: which component reaches what, when, behind which gate, written by which function.

Everything here is read from the registry, the table of slots and the syntax of the functions that call the others. An
older project kept this by hand; its page said that a live gradient did not flow. A reference that leads nowhere, or a
slot whose writer nothing calls, is an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from trainer import loop, pack, step
from trainer.components import FIXED, NINE, Component
from trainer.config import BUILTIN_GEMS, FEATURES
from trainer.gems.registry import component_name, load_gems
from trainer.schedules import LINEAR, write_schedules
from trainer.signals import FEATURE_SLOTS, SLOTS, Signals, Slot

ROOT = Path(__file__).resolve().parents[1]
# Where slots are written while a member trains, in the order in which an epoch meets them.
CALLERS: tuple[Callable[..., Any], ...] = (
    loop.walk_trial, pack.build_pack, pack.reset_pack, step.walk, step.update, step.graph_forward, step.aux_ops,
    step.graph_adam, loop.end_epoch,
)  # fmt: skip


class WiringError(ValueError):
    """The registry names something that does not exist or that nothing calls."""


@dataclass(frozen=True)
class Line:
    """A component and where it is written. `order`: its place among the aux operations, 0 for other phases."""

    component: Component
    place: str  # file:function
    order: int
    off_by: str


@dataclass(frozen=True)
class SlotLine:
    slot: Slot
    place: str  # file:function of its writer
    called_in: tuple[str, ...]  # functions of the trainer that call the writer


@dataclass(frozen=True)
class Wiring:
    """All lines: of the components in the order of HEALTH_DIAG, and of the slots by when they are written."""

    lines: tuple[Line, ...]
    schedules: tuple[SlotLine, ...]
    within_updates: tuple[SlotLine, ...]
    epoch_ends: tuple[SlotLine, ...]
    once: tuple[SlotLine, ...]  # before the first update

    @property
    def aux_order(self) -> tuple[Line, ...]:
        return tuple(sorted((line for line in self.lines if line.order), key=lambda line: line.order))


def read_wiring(references: Iterable[str] = ()) -> Wiring:
    """The wiring of a pack with every feature, the built-in gems and those of `references` (names or import paths).

    Errors: GemError for a gem that cannot be used; WiringError for a broken reference.
    """
    wanted = (*BUILTIN_GEMS, *(r for r in references if r not in BUILTIN_GEMS))
    gems = load_gems(tuple(dict.fromkeys(wanted)))
    known = {c.name: c for c in FIXED} | {component_name(gem.name): pack.gem_component(gem) for gem in gems}
    names = [*NINE, *(name for name in known if name not in NINE)]
    aux = _aux_order([component_name(gem.name) for gem in gems])
    lines = tuple(_line(known[name], aux.index(name) + 1 if name in aux else 0) for name in names)
    slots = [_slot_line(slot) for slot in SLOTS]
    ends, scheduled = _name(loop.end_epoch), _place(write_schedules)
    epoch_ends = [s for s in slots if ends in s.called_in]
    schedules = [s for s in slots if s.place == scheduled]
    start = {_name(f) for f in (loop.walk_trial, pack.build_pack, pack.reset_pack)}
    once = [s for s in slots if set(s.called_in) <= start]
    rest = [s for s in slots if s not in (*epoch_ends, *schedules, *once)]
    return Wiring(lines, tuple(schedules), tuple(rest), tuple(epoch_ends), tuple(once))


def _line(component: Component, order: int) -> Line:
    off = component.feature or ("its mode" if _is_gem(component) else "")
    return Line(component, _place(resolve(component.source)), order, off)


def _is_gem(component: Component) -> bool:
    return any(gate.startswith("gem/") for gate in component.gates)


def resolve(source: str) -> Callable[..., Any]:
    """The function that `module:function` or `module:Class.method` names. Errors: WiringError."""
    module, _, path = source.partition(":")
    try:
        found: Any = sys.modules.get(module) or import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise WiringError(f"{source}: there is no such function ({error}); correct the registry") from None
    if not inspect.isroutine(found):
        raise WiringError(f"{source}: is no function but {type(found).__name__}; correct the registry")
    return found


def _place(function: Callable[..., Any]) -> str:
    """`file:function`, the file relative to the sources of gemsweep, else to the working folder where it lies there."""
    file = Path(inspect.getsourcefile(function) or "").resolve()
    for root in (ROOT, Path.cwd()):
        if file.is_relative_to(root):
            file = file.relative_to(root)
            break
    return f"{file.as_posix()}:{function.__qualname__}"


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__.removeprefix('trainer.')}.{function.__qualname__}"


def writer_source(slot: Slot) -> str:
    """The writer of `slot` as `module:function`; a slot without one keeps what `Signals` gave it."""
    own = {"config": "write_config", "arm": "write_features", "constant": "__init__"}
    if slot.writer in own:
        return f"{Signals.__module__}:{Signals.__qualname__}.{own[slot.writer]}"
    module, _, name = slot.writer.rpartition(".")
    return f"trainer.{module}:{name}"


def _slot_line(slot: Slot) -> SlotLine:
    try:
        writer = resolve(writer_source(slot))
    except WiringError as error:
        raise WiringError(f"slot {slot.name}: {error}") from None
    if slot.writer in ("config", "arm", "constant"):
        return SlotLine(slot, _place(writer), (_name(pack.build_pack),))
    called = tuple(_name(caller) for caller in CALLERS if writer.__name__ in calls(caller))
    if not called:
        raise WiringError(
            f"slot {slot.name}: its writer {_place(writer)} is called by no function of the training loop"
        )
    return SlotLine(slot, _place(writer), called)


def calls(function: Callable[..., Any]) -> list[str]:
    """Names of the functions that `function` calls, in the order in which its text calls them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    named = [n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "") for n in found]
    return [name for name in named if name]


def _aux_order(gems: list[str]) -> list[str]:
    """Components of the aux phase as `step.aux_ops` adds them; the gems come where it adds the wired ones."""
    source = {c.source.rpartition(":")[2]: c.name for c in FIXED if c.phase == "aux_ops"}
    order: list[str] = []
    for name in calls(step.aux_ops):
        order += gems if name == "add_wired" else [source[name]] if name in source else []
    missing = {c.name for c in FIXED if c.phase == "aux_ops"} - set(order)
    if missing or not set(gems) <= set(order):
        raise WiringError(f"{_place(step.aux_ops)} does not call the sources of {sorted(missing) or 'the gems'}")
    return order


def schedule_rows() -> list[tuple[str, str]]:
    """(slot, what it follows) of every scheduled slot."""
    rows = [(slot, f"{a} to {b} over {duration}, linear") for slot, (a, b, duration) in LINEAR.items()]
    return [*rows, ("iqn_readiness", "0 for iqn_warmup_updates, then linear to 1 over iqn_ramp_updates")]


def feature_rows() -> list[tuple[str, str]]:
    """(feature, slots that an arm without it sets to 0)."""
    return [(feature, ", ".join(FEATURE_SLOTS[feature])) for feature in FEATURES]
