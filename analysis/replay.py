"""The looks in order, as if taken one by one: which claim is the first to hold. On arrays, without memory.

Both stages are looked at with the same schedule. Stage 2 counts from the look on at which stage 1 has found the signal
real and new. The first claim decides; what is WIRE stays so, whatever a later look at the signal says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from analysis.boundaries import nominal_levels
from analysis.rules import VerdictRules
from analysis.stage_one import SignalFinding, look_at_signal
from analysis.stage_two import flips_without, look_at_effect
from analysis.units import EffectUnits, SignalUnits
from analysis.verdict import EffectLook, Grade, Label

WIRES = ("improves", "steadies", "harmless")
DELETES = ("hurts", "no benefit")


@dataclass(frozen=True)
class Replay:
    """Every look, and what came of them. `n`: units of the look that decided, 0 for none; `duplicate`: the feature that
    a redundant gem repeats, or may; `fragile`: what the sign of the effect hangs on, so that a claim does not count."""

    label: Label
    grade: Grade
    stage: int
    n: int
    signals: tuple[SignalFinding, ...]
    effects: tuple[EffectLook, ...]
    duplicate: str = ""
    fragile: str = ""


@dataclass
class _State:
    nonzero: int = 0  # units of the look that showed it
    new: bool = False
    duplicate: str = ""
    wired: tuple[str, int] | None = None
    fragile: str = ""


def replay_looks(signal: SignalUnits, effect: EffectUnits, rules: VerdictRules, claims: int) -> Replay:
    """Replay all looks that the units allow. `claims`: gems times doses, which share alpha."""
    levels = nominal_levels(rules.schedule, rules.alpha / claims)
    state = _State()
    signals: list[SignalFinding] = []
    effects: list[EffectLook] = []
    for n, level in zip(rules.schedule, levels, strict=True):
        if n <= len(signal.log10_sizes):
            signals.append(look_at_signal(signal, n, level, rules))
            deleted = _learn(state, signals[-1])
            if deleted and not state.wired:
                return Replay("DELETE", deleted, 1, n, tuple(signals), tuple(effects), state.duplicate)
        if n <= len(effect) and state.nonzero and state.new and rules.policy != "seed":
            effects.append(look_at_effect(effect, n, level, rules))
            found = _judged(state, effects[-1], effect)
            if found and not state.wired:
                return Replay("DELETE", cast(Grade, found), 2, n, tuple(signals), tuple(effects))
    return _end(state, tuple(signals), tuple(effects), rules)


def _learn(state: _State, found: SignalFinding) -> Grade | None:
    """Take a look of stage 1 in; the grade of a deletion, if it shows one."""
    if found.look.finding == "zero" and not state.nonzero:
        state.duplicate = found.duplicate
        return "redundant" if found.redundancy == "redundant" else "zero"
    if found.look.finding == "candidate" and not state.nonzero:
        state.nonzero = found.look.n
    if found.look.finding == "zero":
        return None  # shown to be there at an earlier look: the first claim stands
    if found.redundancy == "redundant":
        state.duplicate = found.duplicate
        return "redundant"
    if found.redundancy == "new":
        state.new, state.duplicate = True, ""
    elif not state.new:
        state.duplicate = found.duplicate
    return None


def _judged(state: _State, look: EffectLook, units: EffectUnits) -> str:
    """Take a look of stage 2 in; the grade of a deletion, if it shows one. A claim whose sign hangs on one unit or fold
    does not count at this look."""
    state.fragile = ""
    if not look.finding:
        return ""
    if look.finding in ("improves", "hurts") and (hangs := flips_without(units, look.n)):
        state.fragile = hangs
        return ""
    if look.finding in WIRES:
        state.wired = look.finding, look.n
    return look.finding if look.finding in DELETES else ""


def _end(
    state: _State, signals: tuple[SignalFinding, ...], effects: tuple[EffectLook, ...], rules: VerdictRules
) -> Replay:
    """No deletion: a gem that is wired, one that waits for a wired arm, or one that waits for more trials."""

    def ended(label: Label, grade: Grade, stage: int, n: int) -> Replay:
        return Replay(label, grade, stage, n, signals, effects, state.duplicate, state.fragile)

    if state.wired:
        return ended("WIRE", cast(Grade, state.wired[0]), 2, state.wired[1])
    if effects:
        return ended("MORE TRIALS", "fragile" if state.fragile else "undecided", 2, effects[-1].n)
    if not signals:
        return ended("MORE TRIALS", "too few", 1, 0)
    if state.nonzero and (state.new or rules.policy == "seed"):
        return ended("MORE TRIALS", "candidate", 1, state.nonzero)
    return ended("MORE TRIALS", "maybe redundant" if state.nonzero else "undecided", 1, signals[-1].look.n)
