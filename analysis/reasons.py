"""Why: one sentence a verdict, with the number, its interval and the limit it is held against."""

from __future__ import annotations

import numpy as np

from analysis.replay import Replay
from analysis.rules import VerdictRules
from analysis.text import UNIT, percent, percent_interval, signed, signed_interval
from analysis.units import SignalUnits
from analysis.verdict import Verdict


def reason_of(verdict: Verdict, found: Replay, units: SignalUnits, rules: VerdictRules) -> str:
    """The sentence for `verdict`, before purity and gate are asked."""
    if verdict.grade == "not measured":
        return f"no size in any configuration ({verdict.absent[0]})"
    if verdict.grade == "too few":
        return f"{verdict.n} of the {rules.schedule[0]} {_units(rules)} that the first look needs"
    return _of_effect(verdict, found, rules) if verdict.stage == 2 else _of_signal(verdict, found, units, rules)


def _of_signal(verdict: Verdict, found: Replay, units: SignalUnits, rules: VerdictRules) -> str:
    limit = f"limit {100.0 * rules.zero_limit:g}{UNIT}"
    size = f"{percent(verdict.estimate)} of |c51_bs| {percent_interval(*verdict.interval)}"
    if verdict.grade == "zero":
        zero = (units.log10_sizes[: verdict.n] <= np.log10(rules.size_floor)).all()
        return "gradient is identically zero" if zero else f"gradient is practically zero: {size}, {limit}"
    if verdict.grade == "redundant":
        return _redundant(verdict, found, rules, size)
    if verdict.grade == "candidate":
        return f"signal is there: {size}, {limit}; wiring it is not tested yet"
    if verdict.grade == "maybe redundant":
        r2 = next(m for m in verdict.redundancy if m.feature == found.duplicate)
        shown = f"R2 {r2.value:+.2f} (se {r2.se:.2f}), limit {rules.redundant_r2:g}"
        return f"signal is there: {size}; whether it only repeats {found.duplicate} is open: {shown}"
    return f"size {size} straddles the {limit}; {_needed(verdict, rules)}"


def _redundant(verdict: Verdict, found: Replay, rules: VerdictRules, size: str) -> str:
    done = next((a for a in verdict.ablations if a.feature == found.duplicate and a.state == "nonzero"), None)
    if done is not None:
        without = f"{percent(done.estimate)} {percent_interval(done.low, done.high)}"
        return f"{found.duplicate} does it already: size {size} with that feature on, {without} without it"
    r2 = next(m for m in verdict.redundancy if m.feature == found.duplicate)
    shown = (
        f"{100 * r2.value:.0f}{UNIT} of it is explained ({r2.basis} R2, se {r2.se:.2f}, limit {rules.redundant_r2:g})"
    )
    return f"repeats {found.duplicate}: {shown}"


def _of_effect(verdict: Verdict, found: Replay, rules: VerdictRules) -> str:
    look = next(k for k in verdict.effect_looks if k.n == verdict.n)
    shown = f"Sharpe {signed(verdict.estimate)} {signed_interval(*verdict.interval)}"
    scope = "" if rules.unit == "configuration" else "; holds for this configuration only"
    sentences = {
        "improves": f"improves: {shown}",
        "steadies": f"steadies: {shown}, no loss beyond {rules.delta_ni:g}, spread between seeds falls "
        f"(bound {signed(look.steadiness)}), failures rise by less than {percent(rules.collapse_margin)}",
        "harmless": f"harmless: {shown}, no loss beyond {rules.delta_ni:g}",
        "hurts": f"hurts: {shown}",
        "no benefit": f"no benefit worth having: {shown}, below the {signed(rules.delta_benefit)} that would be",
        "fragile": f"{shown}, but the sign hangs on {found.fragile}",
    }
    if verdict.grade in sentences:
        return sentences[verdict.grade] + scope
    allowed = f"still allows a loss of {abs(look.low):.2f}" if look.low < 0.0 else "not settled"
    return f"{shown} {allowed}; {_needed(verdict, rules)}{scope}"


def _needed(verdict: Verdict, rules: VerdictRules) -> str:
    if verdict.needed:
        return f"about {verdict.needed} {_units(rules)} would do"
    return f"{rules.schedule[-1]} may not decide it"


def _units(rules: VerdictRules) -> str:
    return "configurations" if rules.unit == "configuration" else "seeds"
