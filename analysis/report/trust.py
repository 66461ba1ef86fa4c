"""2. Is that trustworthy? The gate, purity, rules, what was looked at how often, and what has not been verified."""

from __future__ import annotations

from analysis.load import Experiment
from analysis.page import Markup, badge, definitions, element, section
from analysis.report.machines import pending, verified
from analysis.report.material import Material
from analysis.spread import learned
from analysis.tables import run_statuses
from analysis.text import percent

TITLE = "Is that trustworthy?"
GATES = {"learned": "good", "not learned": "bad", "open": "warn", "not tested": "warn"}
PURITY = {"pure": "good", "impure": "bad", "not recorded": "warn"}


def trust(material: Material) -> Markup:
    """The section."""
    experiment, data = material.experiment, material.experiment.plan.get("data", {})
    rows: list[tuple[object, object]] = [
        ("gate: has the agent learned?", _gate(material)),
        ("purity: is measuring free?", _purity(material)),
        ("rules", _rules(material)),
        ("judge spans", judge_reads(material)),
        ("hold-out", holdout(material)),
        ("verified on", _machines(material)),
        ("failed runs", _failures(experiment)),
        ("Sharpe statuses", f"base runs: {run_statuses(experiment)}"),
        ("looks used", _looks(material)),
        ("claims", _claims(material)),
        ("data", f"{', '.join(data.get('symbols', []))}; sha256 {data.get('sha256', 'not recorded')}"),
        ("windows", _windows(experiment)),
        ("survivors", _survivors(experiment)),
        ("learned on train", _learned(experiment)),
        ("study", _study(experiment)),
        ("label", experiment.label or "none: a study"),
    ]
    return section(TITLE, definitions(rows), anchor="trust", number=2)


def chips(material: Material) -> list[tuple[object, object]]:
    """The same on the first page, in a word each."""
    gate, purity = material.gate, material.experiment.purity
    state = gate.state if gate else "not tested"
    ran = ", ".join(dict.fromkeys(machine.backend for machine in material.machines)) or "nothing yet"
    rest = pending(material.machines)
    return [
        ("has the agent learned?", badge(state.upper(), GATES[state])),
        ("is measuring free of side effects?", badge(purity.state.upper(), PURITY[purity.state])),
        ("rules", _rules(material)),
        ("judge spans", judge_reads(material)),
        ("hold-out", material.openings.text),
        ("verified on", Markup(element("span", ran) + (element("span", f"; pending: {rest}") if rest else ""))),
    ]


def _gate(material: Material) -> Markup:
    gate = material.gate
    if gate is None:
        return Markup(badge("NOT TESTED", "warn") + element("span", " nothing has been measured"))
    return Markup(badge(gate.state.upper(), GATES[gate.state]) + element("span", f" {gate.reason}"))


def _purity(material: Material) -> Markup:
    purity = material.experiment.purity
    return Markup(badge(purity.state.upper(), PURITY[purity.state]) + element("span", f" {purity.reason}"))


def _rules(material: Material) -> Markup:
    if not (material.experiment.plan.get("verdict") or {}).get("rules_hash"):
        return Markup(badge("NOT FIXED", "warn") + element("span", f" {material.rules.hash}; the plan fixed none"))
    if material.changed:
        words = f" {material.rules.hash}; CHANGED after the plan, which fixed {material.changed}"
        return Markup(badge("CHANGED", "bad") + element("span", words))
    return Markup(badge("AS PLANNED", "good") + element("span", f" {material.rules.hash}"))


def judge_reads(material: Material) -> str:
    """How often verdicts have read the judge spans, and what else has."""
    looks = sorted({look.n for verdict in material.verdicts for look in verdict.effect_looks})
    wired = len(material.experiment.pairs)
    if not looks:
        return f"0 looks at a Sharpe difference ({wired} pairs recorded); search reads validation only"
    at = ", ".join(map(str, looks))
    return f"{len(looks)} look{'s' * (len(looks) > 1)} at {at} {material.units}; search reads validation only"


def holdout(material: Material) -> str:
    """Where the hold-out lies, whether any span of this experiment reaches into it, and how often it was opened."""
    experiment, count = material.experiment, material.openings.text
    if material.confirmation:
        return f"is the judge span of this experiment; {count}"
    held = experiment.plan.get("holdout") or {}
    if not held or experiment.spans.empty:
        return f"not recorded; {count}"
    reads = int((experiment.spans["stop"] > held["start"]).sum())
    where = f"{str(held.get('start_time', ''))[:10]} to {str(held.get('stop_time', ''))[:10]}"
    return f"{where}: {count}, {reads} reads by search or verdict"


def _machines(material: Material) -> Markup:
    rest = pending(material.machines)
    ran = verified(material.machines)
    text = element("span", ran)
    return Markup(text + (element("span", f" Pending: {rest}.", class_="muted") if rest else ""))


def _looks(material: Material) -> str:
    schedule = ", ".join(map(str, material.rules.schedule))
    rows = [f"{v.gem} {len(v.looks)} + {len(v.effect_looks)}" for v in material.verdicts]
    used = f"; taken (signal + effect): {', '.join(rows)}" if rows else ""
    return f"planned at {schedule} {material.units}{used}"


def _claims(material: Material) -> str:
    rules, claims = material.rules, material.claims
    shared = f" / {claims} claims (gems × doses)" if claims > 1 else ""
    limits = f"zero below {100.0 * rules.zero_limit:g} %, redundant above R² {rules.redundant_r2:g}"
    margins = f"loss accepted {rules.delta_ni:g}, gain wanted {rules.delta_benefit:g} Sharpe"
    return f"alpha {rules.alpha:g} one-sided{shared}; policy {rules.policy}; {limits}; {margins}"


def _failures(experiment: Experiment) -> str:
    base = experiment.members[experiment.members["arm"] == "base"]
    runs = experiment.scores[experiment.scores["arm"] == "base"]
    frozen, floor = int(base["status"].eq("frozen").sum()), int(runs["failed"].sum())
    absent = experiment.trials[experiment.trials["cause"] != ""]["trial"]
    text = (
        f"{frozen} of {len(base)} base members froze; base runs with a scored epoch at the floor, which counts: {floor}"
    )
    return text + (f"; absent: {', '.join(absent)}" if len(absent) else "; no trial was lost")


def _windows(experiment: Experiment) -> str:
    judge = experiment.plan.get("folds", [])
    spans = [row for row in judge if row.get("span") == "judge"]
    dates = [f"{str(row.get('start_time', ''))[:10]} to {str(row.get('stop_time', ''))[:10]}" for row in spans]
    return f"judge spans of {len(spans)} folds: {'; '.join(dates)}" if spans else "not recorded"


def _survivors(experiment: Experiment) -> str:
    source = experiment.specs[0].data.source
    if source == "us-daily":
        return (
            "the bundled symbols are companies that are still there: holding them looks better than it was to foresee"
        )
    return f"{source}: whether its symbols are survivors is not known here"


def _learned(experiment: Experiment) -> str:
    result = learned(experiment)
    if not result.members:
        return "not known yet: no member has finished"
    by = f"{percent(result.sharpe)} by Sharpe, {percent(result.log_wealth)} by log wealth"
    return f"of {result.members} base members, {by} beat their own untrained network on the train span"


def _study(experiment: Experiment) -> str:
    steps = experiment.plan.get("extensions", [])
    if not steps:
        return f"planned at once, {str(experiment.plan.get('created', ''))[:10] or 'date not recorded'}"
    return f"extended {len(steps)} times: " + "; ".join(f"{row['trials']} trials, {row['why']}" for row in steps)
