"""The report in the terminal: verdicts, spread of Sharpe ratios, trials with the command that runs each again."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.ablation import FEWEST, Ablation
from analysis.baselines import Holding, against_baselines, buy_and_hold
from analysis.collapse import alarms
from analysis.further import further_arms
from analysis.health import health_lines
from analysis.judge import verdicts
from analysis.load import Experiment
from analysis.redundancy import CoMovement
from analysis.rules import VerdictRules, planned_rules
from analysis.spread import best_epochs, learned, variance_sources
from analysis.text import (
    ABSENT,
    count_statuses,
    duration,
    mean_and_sd,
    percent,
    plain,
    setting,
    signed,
    signed_interval,
)
from analysis.text import console as default_console
from analysis.verdict import Verdict

SHOWN_TRIALS = 20
BADGES = {"DELETE": "bold white on red", "INVALID": "bold white on red", "MORE TRIALS": "bold black on yellow"}
WIDEST = 100


def print_report(experiment: Experiment, console: Console | None = None, rules: VerdictRules | None = None) -> None:
    """Print verdicts, spread and trials of an experiment; at most 100 columns wide, readable in 80."""
    console = console or default_console()
    width = min(console.width, WIDEST)
    rules = rules or planned_rules(experiment.plan)
    _heading(console, experiment, rules, width)
    console.print(_gem_table(verdicts(experiment, rules), rules), width=width)
    console.print()
    _trials(console, experiment, width)
    console.print()
    _spread(console, experiment, width)
    _health(console, experiment, width)
    for arm in further_arms(experiment):
        console.print(Text(f"{arm.line()}; told, not judged"), width=width)
    for alarm in alarms(experiment):
        console.print(Text(alarm.line(), style="bold red"), width=width)
    for problem in experiment.problems:
        console.print(f"[red]damaged:[/red] {escape(problem)}", width=width, highlight=False)


def debug_command(experiment: Experiment, trial: str) -> str:
    """The command that runs a trial again and compares every stored number."""
    return f"gemsweep debug {shlex.quote(str(experiment.path))} --trial {shlex.quote(trial)}"


def _heading(console: Console, experiment: Experiment, rules: VerdictRules, width: int) -> None:
    counts = experiment.trials["status"].value_counts()
    states = ", ".join(f"{count} {status}" for status, count in counts.items())
    title = Text(f"{experiment.name}: {len(experiment.trials)} trials ({states})", style="bold")
    if experiment.label:
        title.append(f"  [{experiment.label}]", style="bold yellow")
    console.print(title, width=width)
    about = f"provisional stage-1 verdicts, rules {rules.hash}; purity: {experiment.purity.reason}"
    console.print(Text(about), width=width)
    console.print()


def _gem_table(found: list[Verdict], rules: VerdictRules) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=True, header_style="dim")
    table.add_column("gem", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("verdict", max_width=22)
    table.add_column("why", ratio=1)
    for verdict in found:
        badge = Text(verdict.label, style=BADGES[verdict.label])
        badge.append(verdict.title.removeprefix(verdict.label), style="default on default not bold")
        why = Text(verdict.reason)
        for line in evidence_lines(verdict, rules):
            why.append(f"\n{line}", style="dim")
        table.add_row(Text(verdict.gem, style="bold"), badge, why)
    if not found:
        table.add_row("n/a", "n/a", "no gem has been measured yet")
    return table


def evidence_lines(verdict: Verdict, rules: VerdictRules) -> list[str]:
    """What stands beside a verdict without deciding it: sizes by slice, co-movement, absent configurations."""
    lines = [f"at {verdict.n} configurations: the look that decided"] if verdict.looks else []
    if verdict.slices:
        lines.append("by slice: " + ", ".join(f"{name} {percent(size)}" for name, size in verdict.slices.items()))
    tested = [_co_movement(result, rules.redundant_r2) for result in verdict.redundancy if not result.untested]
    untested = [f"{result.feature} ({result.untested})" for result in verdict.redundancy if result.untested]
    lines += [f"moves with {line}" for line in tested]
    lines += [f"redundancy not tested with: {', '.join(untested)}"] if untested else []
    lines += [f"absent: {'; '.join(verdict.absent)}"] if verdict.absent else []
    return lines


def _co_movement(result: CoMovement, limit: float) -> str:
    found = f"{result.feature}: R2 {result.value:+.2f} (se {result.se:.2f}, {result.basis}; "
    if result.value >= limit:
        return found + f">= {limit:g}: would be called redundant by co-movement; supporting evidence only)"
    return found + f"< {limit:g}: not redundant by co-movement)"


def ablation_words(found: Verdict, result: Ablation) -> str:
    """What the gem's size without a feature says about the two of them."""
    if result.state == "too few":
        return f"not tested: {result.n} configurations, {FEWEST} are needed"
    if result.state == "open" or found.signal is None:
        return "open"
    if found.signal.finding == "zero":
        return "the feature does it already" if result.state == "nonzero" else "zero either way: never active"
    return "there either way" if result.state == "nonzero" else "there only with the feature on"


def ranked_trials(experiment: Experiment) -> pd.DataFrame:
    """Trials by (objective_ok, objective), best first; those without an objective last, in launch order."""
    order = ["objective_ok", "objective", "launch"]
    return experiment.trials.sort_values(order, ascending=[False, False, True], ignore_index=True)


def status_line(row: Mapping[Hashable, Any]) -> str:
    """What the judge and validation walks of a trial are, where not all are ok; "" where they are."""
    parts = [("judge runs", row["statuses"]), ("validation walks", row["validation_statuses"])]
    shown = "; ".join(f"{name}: {text}" for name, text in parts if text)
    unusual = shown and row["validation_statuses"] and not row["objective_ok"]
    return f"{shown}; ranked after the trials that mostly are ok" if unusual else shown


def run_statuses(experiment: Experiment) -> str:
    """Counts of the statuses of the base runs."""
    statuses = experiment.scores.loc[experiment.scores["arm"] == "base", "status"]
    return count_statuses(statuses) or f"all {len(statuses)} ok"


def varied_settings(experiment: Experiment) -> list[str]:
    """Columns of the hyperparameters that differ between trials."""
    names = [name for name in experiment.trials.columns if name.startswith("config/")]
    return [name for name in names if experiment.trials[name].astype(str).nunique() > 1]


def _trials(console: Console, experiment: Experiment, width: int) -> None:
    ranked = ranked_trials(experiment)
    settings = varied_settings(experiment)
    key_width = int(ranked["trial"].str.len().max())
    # A long key (one run a trial) gets a line of its own, or the numbers would wrap.
    own_line = key_width > width - 66
    head = " " * (4 if own_line else 4 + key_width)
    labels = f"{head}  {'status':8}{'objective':>9}  {'Sharpe ± sd':>14}  {'[lo, hi]':>14}  {'HAC se':>6}"
    console.print(Text("Trials by objective (IQM of validation Sharpe); Sharpe: judge score over seeds", style="bold"))
    console.print(Text(labels, style="dim"), no_wrap=True)
    for rank, row in enumerate(ranked.head(SHOWN_TRIALS).to_dict("records"), start=1):
        spread = mean_and_sd(row["sharpe"], row["sharpe_var"])
        numbers = (
            f"  {row['status']:8}{signed(row['objective']):>9}  {spread:>14}"
            f"  {signed_interval(row['sharpe_lo'], row['sharpe_hi']):>14}  {plain(row['sharpe_se']):>6}"
        )
        key = f"{rank:>3} {row['trial']:{key_width}}"
        console.print(Text(key if own_line else key + numbers), no_wrap=True)
        if own_line:
            console.print(Text(head + numbers), no_wrap=True)
        if settings:
            values = "  ".join(f"{name.removeprefix('config/')}={setting(row[name])}" for name in settings)
            console.print(Padding(Text(values, style="dim"), (0, 0, 0, 4)), width=width)
        if unusual := status_line(row):
            console.print(Padding(Text(unusual, style="yellow"), (0, 0, 0, 4)), width=width)
        if row["error"]:
            console.print(Padding(Text(f"{row['cause']}: {row['error']}", style="red"), (0, 0, 0, 4)), width=width)
        # Not wrapped by us, so that it can be copied from any terminal.
        console.print(Text(f"    {debug_command(experiment, row['trial'])}", style="cyan"), soft_wrap=True)
    if len(ranked) > SHOWN_TRIALS:
        console.print(f"    {len(ranked) - SHOWN_TRIALS} more in the report", style="dim")


def _spread(console: Console, experiment: Experiment, width: int) -> None:
    if experiment.scores["sharpe"].notna().sum() == 0:
        console.print("no run has been scored yet", style="dim")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("variance of Sharpe")
    for name in ("n", "mean", "variance", "95 % interval", "[lo, hi]"):
        table.add_column(escape(name), justify="right", no_wrap=True)
    for source in variance_sources(experiment):
        bounds = f"[{plain(source.interval[0])}, {plain(source.interval[1])}]" if source.df else ABSENT
        values = (str(source.n), signed(source.mean), plain(source.variance, 3), bounds)
        table.add_row(source.title, *values, signed_interval(source.lo, source.hi))
    console.print(table, width=width)
    best = best_epochs(experiment)
    if best.runs:
        line = (
            f"best Sharpe variance {plain(best.variance, 3)}, Sharpe in {signed_interval(best.lo, best.hi)}, "
            f"over {best.runs} runs"
        )
        console.print(Text(f"{line} (best epoch on validation: selected, never judged)", style="dim"), width=width)
    console.print(Text(f"status of base runs: {run_statuses(experiment)}"), width=width)
    console.print()
    for line in baseline_lines(experiment, buy_and_hold(experiment)):
        console.print(Text(line), width=width)
    trained = learned(experiment)
    if trained.members:
        shares = f"{percent(trained.sharpe)} by Sharpe, {percent(trained.log_wealth)} by log wealth"
        console.print(
            Text(f"learned: of {trained.members} base members, {shares} beat their untrained self on train"),
            width=width,
        )


def baseline_lines(experiment: Experiment, holding: Holding) -> list[str]:
    """The base runs against what they have to beat, a sentence each."""
    lines = []
    for row in against_baselines(experiment, holding):
        note = f" ({row.note})" if row.note else ""
        known = f"Sharpe {signed(row.sharpe)}, beaten by {percent(row.beaten_by)} of {row.runs} runs"
        lines.append(f"against {row.baseline}: {known if row.sharpe == row.sharpe else 'not known'}{note}")
    return lines


def _health(console: Console, experiment: Experiment, width: int) -> None:
    for line in health_lines(experiment):
        console.print(Text(line, style="dim"), width=width)
    seconds = experiment.trials["seconds"].sum()
    if seconds > 0:
        console.print(Text(f"training time of all trials together: {duration(seconds)}", style="dim"), width=width)
