"""An experiment as the description of a change: what was measured, the numbers, what they decide, what is pending.

The form is that of the change descriptions that this project began with, so that the record of a decision stands in
the history of the code that it decides about.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from analysis.baselines import buy_and_hold
from analysis.collapse import alarms
from analysis.comparison import Size, counted, gem_size, t_interval
from analysis.further import further_arms
from analysis.judge import verdicts
from analysis.load import Experiment
from analysis.rules import VerdictRules, planned_rules
from analysis.side_by_side import Field, side_by_side
from analysis.signals import signals
from analysis.spread import best_epochs
from analysis.tables import baseline_lines
from analysis.text import GAP, count_statuses, percent, percent_interval, signed, signed_interval
from analysis.verdict import Verdict

WIDTH = 72  # of a line and of the subject
SHOWN = 3  # of things that may be many
ACTIONS = {"WIRE": "wire", "DELETE": "delete", "MORE TRIALS": "more trials for", "INVALID": "invalid:"}
COUNTS = {"WIRE": "to wire", "DELETE": "to delete", "MORE TRIALS": "open", "INVALID": "invalid"}


def commit_message(experiment: Experiment, rules: VerdictRules | None = None) -> str:
    """Plain text: a subject, a blank line, paragraphs and lists; no line above 72 characters."""
    rules = rules or planned_rules(experiment.plan)
    found = verdicts(experiment, rules)
    decided = _grouped((v.gem, f"{v.title}: {v.reason}") for v in found if v.label in ("WIRE", "DELETE"))
    parts = [
        _wrapped(_measured(experiment, found)),
        _list("Gem gradients, share of |c51_bs|:", _sizes(experiment, found, rules)),
        _list("Runs:", _numbers(experiment)),
        _list("What this decides:", decided or ["nothing yet"]),
        _wrapped(_rule(rules)),
        _list("Pending:", _pending(experiment, found)),
        _wrapped(_origin(experiment, rules)),
    ]
    return f"{_subject(experiment, found)}\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _subject(experiment: Experiment, found: Sequence[Verdict]) -> str:
    """The verdicts by name; their counts where the names do not fit."""
    by_label = {label: [v.gem for v in found if v.label == label] for label in ACTIONS}
    named = "; ".join(f"{ACTIONS[label]} {', '.join(gems)}" for label, gems in by_label.items() if gems)
    configurations = experiment.scores.dropna(subset=["sharpe"])["config"].nunique()
    numbers = ", ".join(f"{len(gems)} {COUNTS[label]}" for label, gems in by_label.items() if gems)
    fallback = f"Gems after {counted(configurations, 'scored configuration')}: {numbers or 'none measured'}"
    return _plain(named[:1].upper() + named[1:] if 0 < len(named) <= WIDTH else fallback)


def _measured(experiment: Experiment, found: Sequence[Verdict]) -> str:
    """What ran."""
    specs, data = experiment.specs, experiment.plan.get("data") or {}
    members = [member for spec in specs for member in spec.members]
    size = " x ".join(
        (
            counted(len({spec.config_key for spec in specs}), "configuration"),
            counted(len({member.seed for member in members}), "seed"),
            counted(len({member.fold for member in members}), "fold"),
        )
    )
    label = f" [{experiment.label}]" if experiment.label else ""
    gems = (
        f"Measures {_all(v.gem for v in found)} before wiring or deleting anything," if found else "No gem is measured"
    )
    epochs = _all(str(n) for n in sorted({spec.trainer.epochs for spec in specs}))
    return (
        f"{gems} in experiment {experiment.name}{label}: {size}, {epochs} epochs, on "
        f"{', '.join(data.get('symbols', [])) or 'bars that the plan does not name'}{_judged_on(experiment.plan)}. "
        f"{_modes(experiment)}"
    )


def _judged_on(plan: Mapping) -> str:
    spans = [row for row in plan.get("folds", []) if row["span"] == "judge"]
    return (
        ", judged on " + _all(f"{row['start_time'][:10]} to {row['stop_time'][:10]}" for row in spans) if spans else ""
    )


def _modes(experiment: Experiment) -> str:
    """How the gems stand in the base arm."""
    names = {row.get("reference", row["name"]): row["name"] for row in experiment.plan.get("gems", [])}
    base = next((arm for spec in experiment.specs for arm in spec.arms if arm.name == "base"), None)
    modes: dict[str, list[str]] = {}
    for gem, config in base.gems.items() if base else ():
        modes.setdefault(config.mode, []).append(names.get(gem, gem))
    words = {"probe": "forward-only: measured, never applied", "wired": "wired", "off": "off"}
    told = "; ".join(f"{_all(gems)} {'is' if len(gems) == 1 else 'are'} {words[mode]}" for mode, gems in modes.items())
    return f"In the base arm {told}." if told else ""


def _sizes(experiment: Experiment, found: Sequence[Verdict], rules: VerdictRules) -> Iterator[str]:
    """The look that a verdict rests on; before the first look, what there is."""
    for verdict in found:
        if look := verdict.signal:
            shown = f"{percent(look.estimate)} {percent_interval(look.low, look.high)} at the look at {look.n}"
        else:
            shown = _unlooked(gem_size(signals(experiment, verdict.gem), rules))
        by_slice = ", ".join(f"{name} {percent(size)}" for name, size in verdict.slices.items())
        yield f"{verdict.gem}: {shown}{f'; {by_slice}' if by_slice else ''}"


def _unlooked(size: Size) -> str:
    if not size.n:
        return "not measured"
    interval = f" {percent_interval(size.low, size.high)} (95 % t)" if size.n > 1 else ""
    return f"{percent(size.value)}{interval} over {counted(size.n, 'configuration')}, before the first look"


def _numbers(experiment: Experiment) -> Iterator[str]:
    """What the runs did."""
    states = experiment.trials["status"].value_counts()
    yield f"{counted(len(experiment.trials), 'trial')}: " + ", ".join(f"{n} {status}" for status, n in states.items())
    base = experiment.scores[experiment.scores["arm"] == "base"].dropna(subset=["sharpe"])
    if len(base):
        means = base.groupby("config")["sharpe"].mean().to_numpy(float)
        low, mean, high = t_interval(means)
        statuses = count_statuses(base["status"]) or "all ok"
        over = f"over {counted(len(means), 'configuration')} ({counted(len(base), 'run')}: {statuses})"
        yield f"judge Sharpe {signed(mean)} {signed_interval(low, high)} {over}"
    best = best_epochs(experiment)
    if best.runs:
        yield f"{best.text}; best epoch on validation: selected, never judged"
    yield from (arm.line() for arm in further_arms(experiment))
    if len(base):
        yield from baseline_lines(experiment, buy_and_hold(experiment))
    trunk = [f"{field.name}={_range(field)}" for field in side_by_side(experiment, "grad_trunk").fields]
    if trunk:
        yield f"grad_trunk at the last epoch, medians of trials: {' '.join(trunk)}"
    yield f"purity: {experiment.purity.reason}"


def _range(field: Field) -> str:
    """Lowest to highest trial; the mark where no trial has a number."""
    last = list({cell.trial: cell for cell in field.cells}.values())  # cells are in order of epochs
    values = sorted(cell.value for cell in last if cell.mark in ("value", "exact"))
    if not values:
        marks = {"structural": "-", "gated": f"gated:{','.join(field.gates)}", "unmeasured": "n/a"}
        return marks[last[0].mark]
    ends = dict.fromkeys(f"{value:.3g}" for value in (values[0], values[-1]))
    return "..".join(ends)


def _rule(rules: VerdictRules) -> str:
    """How it is decided, in the order of the stages."""
    wired = {
        "benefit": "which is wired when its wired arm gains, or steadies the runs",
        "noninferior": f"which is wired when its wired arm loses less than {rules.delta_ni:g} Sharpe",
        "seed": "which is wired",
    }
    looks = ", ".join(map(str, rules.schedule[:4])) + (", ..." if len(rules.schedule) > 4 else "")
    return (
        f"Rule: an interval below {100.0 * rules.zero_limit:g} % of |c51_bs| deletes a gem; one above it makes it a "
        f"candidate, {wired[rules.policy]}. Looks after {looks} {rules.unit}s."
    )


def _pending(experiment: Experiment, found: Sequence[Verdict]) -> Iterator[str]:
    """What the numbers do not settle, and what has to be done."""
    yield from _grouped((v.gem, f"{v.title}: {v.reason}") for v in found if v.label in ("MORE TRIALS", "INVALID"))
    yield from _grouped((v.gem, note) for v in found for note in v.notes)
    yield from (f"delete the code of {v.gem}" for v in found if v.label == "DELETE")
    if wired := [v.gem for v in found if v.label == "WIRE"]:
        yield f"confirm {_all(wired)} on fresh seeds and the hold-out (gemsweep promote, gemsweep confirm)"
    open_ = experiment.trials[~experiment.trials["status"].isin(["done", "failed"])]
    if len(open_):
        yield f"{counted(len(open_), 'trial')} not finished"
    failed = experiment.trials[experiment.trials["status"] == "failed"].itertuples()
    yield from _first([f"failed: {row.trial}: {row.cause}: {row.error}" for row in failed], "failed trials")
    yield from _first([alarm.line() for alarm in alarms(experiment)], "alarms of the watchdog")
    yield from _first([f"damaged: {problem}" for problem in experiment.problems], "damaged parts")
    if experiment.label:
        yield f"this is labelled: {experiment.label}"


def _first(lines: list[str], what: str) -> list[str]:
    more = [f"{len(lines) - SHOWN} more {what}"] if len(lines) > SHOWN else []
    return [*lines[:SHOWN], *more]


def _grouped(facts: Iterable[tuple[str, str]]) -> list[str]:
    """One line a fact, with all the gems that it is about."""
    gems: dict[str, list[str]] = {}
    for gem, fact in facts:
        gems.setdefault(fact, []).append(gem)
    return [f"{_all(names)}: {fact}" for fact, names in gems.items()]


def _origin(experiment: Experiment, rules: VerdictRules) -> str:
    """What the numbers can be traced to."""
    data, versions = experiment.plan.get("data") or {}, experiment.plan.get("versions") or {}
    parts = [f"Experiment {experiment.name}", f"rules {rules.hash}"]
    parts += [f"bars sha256 {data['sha256'][:12]}"] if data.get("sha256") else []
    parts += [f"commit {str(versions['commit'])[:12]}"] if versions.get("commit") else []
    return f"{', '.join(parts)}."


def _list(title: str, items: Iterable[str]) -> str:
    lines = [_wrapped(item, "- ", "  ") for item in items]
    return "\n".join([title, *lines]) if lines else ""


def _wrapped(text: str, first: str = "", later: str = "") -> str:
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return _plain("\n".join(lines))


def _plain(text: str) -> str:
    """No character that a terminal would obey; a number and its unit were kept on one line until here."""
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text.replace(GAP, " "))


def _all(names: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = list(names)
    return f"{', '.join(first)} and {last}" if first else last
