"""The report: one HTML page that needs no network and no JavaScript, verdicts first. Equal data give equal bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import plots
from analysis.baselines import Holding, buy_and_hold
from analysis.collapse import alarms, collapse_gauges
from analysis.evidence import unit_sizes
from analysis.further import further_arms
from analysis.health import health_curves
from analysis.judge import verdicts
from analysis.load import Experiment
from analysis.matrix import norm_matrix
from analysis.page import Column, Markup, badge, definitions, element, figure, figures, note, page, section, table
from analysis.rules import VerdictRules, planned_rules
from analysis.signals import signals
from analysis.spread import best_epochs, learned, variance_sources
from analysis.svg import figure_svg, label_room
from analysis.tables import (
    baseline_lines,
    debug_command,
    evidence_lines,
    ranked_trials,
    run_statuses,
    status_line,
    varied_settings,
)
from analysis.text import (
    ABSENT,
    duration,
    mean_and_sd,
    percent,
    percent_interval,
    plain,
    setting,
    signed,
    signed_interval,
)
from analysis.verdict import Verdict
from trainer.record.files import write_atomic

KINDS = {"DELETE": "bad", "INVALID": "bad", "MORE TRIALS": "warn", "WIRE": "good"}
STATES = {"done": "good", "failed": "bad", "running": "warn", "waiting": "", "damaged": "bad"}


@dataclass(frozen=True)
class Material:
    """Everything the sections draw from, computed once."""

    experiment: Experiment
    rules: VerdictRules
    verdicts: list[Verdict]
    holding: Holding


def write_report(experiment: Experiment, path: Path | str | None = None, rules: VerdictRules | None = None) -> Path:
    """Write the page to `path` (default: report.html in the experiment folder) and return where it is."""
    target = Path(path) if path is not None else experiment.path / "report.html"
    rules = rules or planned_rules(experiment.plan)
    material = Material(experiment, rules, verdicts(experiment, rules), buy_and_hold(experiment))
    write_atomic(target, _page(material).encode())
    return target


def _page(material: Material) -> str:
    experiment = material.experiment
    return page(
        f"{experiment.name}: gem report",
        _header(material),
        section("Verdicts", _verdict_table(material), *(_gem_details(material, found) for found in material.verdicts)),
        section("Can it be trusted?", _trust(material)),
        section("Sharpe ratios and their spread", *_sharpe(material)),
        section("Further arms", _further(material.experiment)),
        section("How large each gem's gradient is", *_sizes(material)),
        section("Equity on the judge spans", *_equity(material)),
        section("Health of training", *_health(material), _collapse(experiment)),
        section("Gradient norms by component and slice", *norm_matrix(experiment)),
        section("Trials", _trials(experiment)),
        section("How to read this", _glossary(material)),
    )


def _header(material: Material) -> Markup:
    experiment = material.experiment
    counts = experiment.trials["status"].value_counts().sort_index()
    states = ", ".join(f"{count} {status}" for status, count in counts.items())
    scores = experiment.scores[experiment.scores["arm"] == "base"]
    sides = scores["config"].nunique(), scores["seed"].nunique(), scores["folds"].max()
    shape = "{} configurations × {} seeds × {} folds".format(*sides)
    label = element("p", badge(experiment.label, "warn")) if experiment.label else ""
    line = element("p", f"{len(experiment.trials)} trials ({states}): {shape}.", class_="muted")
    notes = [note(f"Damaged: {problem}", alarm=True) for problem in experiment.problems]
    notes += [note(f"{alarm.line()} ({alarm.meaning})", alarm=True) for alarm in alarms(experiment)]
    return element("header", element("h1", experiment.name), label, line, *notes)


def _verdict_table(material: Material) -> Markup:
    columns = [
        Column("gem", "text"), Column("verdict", "text"), Column("why", "text"), Column("by slice", "text"),
        Column("configurations", "n"),
    ]  # fmt: skip
    rows = [
        (
            element("strong", verdict.gem),
            _verdict_badge(verdict),
            verdict.reason,
            ", ".join(f"{name} {percent(size)}" for name, size in verdict.slices.items()) or ABSENT,
            f"{verdict.n}" + (f" of {verdict.needed} needed" if verdict.needed else ""),
        )
        for verdict in material.verdicts
    ]
    if not rows:
        return element("p", "No gem has been measured yet.")
    about = "Provisional: stage 1 judges only whether the gradient is there. "
    about += "Size is |coef × grad gem| / |c51_bs| over the slices that C51 reaches."
    return Markup(table(columns, rows) + element("p", about, class_="muted"))


def _verdict_badge(verdict: Verdict) -> Markup:
    rest = verdict.title.removeprefix(verdict.label).strip()
    return Markup(badge(verdict.label, KINDS[verdict.label]) + element("span", f" {rest}", class_="muted"))


def _gem_details(material: Material, verdict: Verdict) -> Markup:
    looks = table(
        [Column("look at", "n"), Column("size", "n"), Column("interval", "n"), Column("finding")],
        [
            (f"{k.n} configurations", percent(k.estimate), percent_interval(k.low, k.high), k.finding)
            for k in verdict.looks
        ],
    )
    evidence = element("ul", *(element("li", line) for line in evidence_lines(verdict, material.rules)))
    summary = element("summary", element("strong", verdict.gem), ": every look and the evidence beside it")
    return element("details", summary, looks if verdict.looks else "", evidence)


def _trust(material: Material) -> Markup:
    experiment, plan = material.experiment, material.experiment.plan
    data = plan.get("data", {})
    planned = (plan.get("verdict") or {}).get("rules_hash")
    changed = bool(planned) and planned != material.rules.hash
    state = {"pure": "good", "impure": "bad"}.get(experiment.purity.state, "warn")
    rows = [
        (
            "purity",
            Markup(badge(experiment.purity.state.upper(), state) + " " + element("span", experiment.purity.reason)),
        ),
        ("failures", _failures(experiment)),
        ("Sharpe statuses", f"base runs: {run_statuses(experiment)}"),
        ("label", experiment.label or "none: a study"),
        (
            "rules",
            f"{material.rules.hash}"
            + (f"; CHANGED after the plan, which fixed {planned}" if changed else ", as planned"),
        ),
        ("claims", _claims(material)),
        ("data", f"{', '.join(data.get('symbols', []))}; sha256 {data.get('sha256', 'not recorded')}"),
        ("survivors", _survivors(experiment)),
        ("hold-out", _holdout(experiment)),
        ("learned", _learned(experiment)),
    ]
    return definitions(rows)


def _failures(experiment: Experiment) -> str:
    base = experiment.members[experiment.members["arm"] == "base"]
    runs = experiment.scores[experiment.scores["arm"] == "base"]
    frozen, floor = int(base["status"].eq("frozen").sum()), int(runs["failed"].sum())
    absent = experiment.trials[experiment.trials["cause"] != ""]["trial"]
    text = (
        f"{frozen} of {len(base)} base members froze; base runs with a scored epoch at the floor, which counts: {floor}"
    )
    return text + (f"; absent: {', '.join(absent)}" if len(absent) else "; no trial was lost")


def _claims(material: Material) -> str:
    rules, count = material.rules, max(1, len(material.verdicts))
    looks = ", ".join(map(str, rules.schedule))
    limit = f"limit {100.0 * rules.zero_limit:g} %"
    return f"alpha {rules.alpha:g} one-sided / {count} gems; looks at {looks} configurations; {limit}"


def _survivors(experiment: Experiment) -> str:
    source = experiment.specs[0].data.source
    if source == "us-daily":
        return (
            "the bundled symbols are companies that are still there: holding them looks better than it was to foresee"
        )
    return f"{source}: whether its symbols are survivors is not known here"


def _holdout(experiment: Experiment) -> str:
    held = experiment.plan.get("holdout") or {}
    if not held or experiment.spans.empty:
        return "not recorded"
    reads = int((experiment.spans["stop"] > held["start"]).sum())
    return f"{held.get('start_time', '')[:10]} to {held.get('stop_time', '')[:10]}: {reads} reads by search or verdict"


def _learned(experiment: Experiment) -> str:
    result = learned(experiment)
    if not result.members:
        return "not known yet: no member has finished"
    by = f"{percent(result.sharpe)} by Sharpe, {percent(result.log_wealth)} by log wealth"
    return f"of {result.members} base members, {by} beat their own untrained network on the train span"


def _sharpe(material: Material) -> list[Markup]:
    experiment = material.experiment
    scores = experiment.scores[experiment.scores["arm"] == "base"].dropna(subset=["sharpe"])
    if scores.empty:
        return [element("p", "No run has been scored yet.")]
    holding = material.holding.estimate.value if material.holding.estimate else None
    means = scores.groupby("config")["sharpe"].mean()
    caption = (
        f"{len(scores)} runs, mean {signed(scores['sharpe'].mean())}, range "
        f"{signed_interval(scores['sharpe'].min(), scores['sharpe'].max())}; configuration means "
        f"{signed_interval(means.min(), means.max())}. Dots: seeds. Tick: their mean. Bar: ± one HAC standard error. "
        "Cross: a run that stands at the floor."
    )
    height, room = 1.0 + 0.24 * len(means), label_room(means.index)
    svg = figure_svg("sharpe", lambda axes: plots.sharpe_strip(axes, scores, holding), caption, height, room)
    return [
        figures([figure("Judge Sharpe by configuration", svg, caption), _variances(experiment)]),
        element("ul", *(element("li", line) for line in baseline_lines(experiment, material.holding))),
    ]


def _variances(experiment: Experiment) -> Markup:
    columns = [
        Column("variance of Sharpe", "text"),
        *(Column(name, "n") for name in ("n", "mean", "variance", "95 %", "[lo, hi]")),
    ]
    rows = [
        (
            source.title,
            source.n,
            signed(source.mean),
            plain(source.variance, 3),
            f"[{plain(source.interval[0])}, {plain(source.interval[1])}]" if source.df else ABSENT,
            signed_interval(source.lo, source.hi),
        )
        for source in variance_sources(experiment)
    ]
    best = best_epochs(experiment)
    line = f"best Sharpe variance {plain(best.variance, 3)}, Sharpe in {signed_interval(best.lo, best.hi)}"
    line += f", over {best.runs} runs"
    about = (
        "For seeds and folds [lo, hi] are deviations from their group's mean. Intervals assume normal values. The "
        "means of configurations differ by their seeds too; net is what is left of that variance without them."
    )
    selected = element("p", badge("SELECTED", ""), f" {line}: best epoch on validation, never judged.", class_="muted")
    return element("div", table(columns, rows), element("p", about, class_="muted"), selected if best.runs else "")


def _further(experiment: Experiment) -> Markup:
    columns = [
        Column("arm", "text"), Column("changes", "text"), Column("runs", "n"), Column("pairs", "n"),
        Column("judge Sharpe minus base: median", "n"), Column("quartiles", "n"), Column("statuses", "text"),
    ]  # fmt: skip
    rows = [
        (
            element("strong", arm.name), arm.change, arm.runs, arm.pairs, signed(arm.median),
            signed_interval(arm.lo, arm.hi), arm.statuses or ("all ok" if arm.runs else ABSENT),
        )
        for arm in further_arms(experiment)
    ]  # fmt: skip
    if not rows:
        return element("p", "Every run is of the base arm.")
    about = "Told, not judged: pairs are runs of one configuration and seed, the arm's and the base arm's."
    return Markup(table(columns, rows) + element("p", about, class_="muted"))


def _sizes(material: Material) -> list[Markup]:
    experiment, limit = material.experiment, material.rules.zero_limit
    if not material.verdicts:
        return [element("p", "No gem has been measured yet.")]
    frames = {found.gem: signals(experiment, found.gem) for found in material.verdicts}
    units = {gem: unit_sizes(frame, material.rules)[0]["log10_size"] for gem, frame in frames.items()}
    sizes = {gem: 10.0 ** unit.to_numpy(float) for gem, unit in units.items()}
    looked = [found for found in material.verdicts if found.looks]
    numbers = "; ".join(f"{v.gem} {percent(v.estimate)} {percent_interval(*v.interval)}" for v in looked)
    about = "Dots: configurations (hollow: off the axis). Diamond and bar: mean and interval at the deciding look; "
    about += "a bar that meets the edge goes on beyond it."
    caption = f"{numbers or 'No look yet'}. {about}"
    height, room = 0.9 + 0.5 * len(sizes), label_room(sizes)
    svg = figure_svg(
        "sizes", lambda axes: plots.gem_sizes(axes, material.verdicts, sizes, limit), caption, height, room
    )
    panels = [_size_panel(found, frames[found.gem], limit) for found in material.verdicts]
    return [figures([figure("Size by configuration", svg, caption), *panels])]


def _size_panel(found: Verdict, frame: pd.DataFrame, limit: float) -> Markup:
    measured = frame[frame["epoch"] > 0]
    panel = measured.pivot_table(index="epoch", columns="config", values="size", aggfunc=_geometric)
    if panel.empty:
        return element("p", f"{found.gem} has not been measured.")
    first, last = percent(_geometric(panel.iloc[0])), percent(_geometric(panel.iloc[-1]))
    ends = f"Geometric mean {first} at epoch {panel.index[0]}, {last} at {panel.index[-1]}"
    text = f"{ends}. Thin: configurations; dashed: limit."
    colour = plots.COLOURS[found.label]
    svg = figure_svg(f"epochs-{found.gem}", lambda axes: plots.size_over_epochs(axes, panel, limit, colour), text)
    return figure(f"{found.gem} over epochs", svg, text)


def _geometric(values: pd.Series) -> float:
    positive = values[values > 0.0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else 0.0


def _equity(material: Material) -> list[Markup]:
    experiment = material.experiment
    rows = experiment.epochs
    if not len(rows) or experiment.timeline is None:
        return [element("p", "No judge span has been walked yet.")]
    final = rows[(rows["arm"] == "base") & (rows["remaining"] == 0)]
    panels = []
    for span in experiment.spans[experiment.spans["span"] == "judge"].sort_values("fold").itertuples():
        stamps = experiment.timeline[int(span.start) + 1 : int(span.stop)]
        own = experiment.judge.loc[final.index[final["fold"] == span.fold], "returns"]
        series = [returns for returns in own if len(returns) == len(stamps)]
        if series:
            curves = pd.DataFrame(np.column_stack(series), index=stamps)
            panels.append(_equity_panel(int(span.fold), curves, material.holding.returns.get(int(span.fold))))
    if not panels:
        return [element("p", "No judge span has been walked yet.")]
    about = "Base runs with the parameters of their last epoch, costs paid. Buy and hold: equal weights, before costs."
    return [element("p", about, class_="muted"), figures(panels)]


def _equity_panel(fold: int, curves: pd.DataFrame, holding: pd.Series | None) -> Markup:
    ends = (1.0 + curves).prod()
    count, spread = curves.shape[1], f"[{plain(ends.min())}, {plain(ends.max())}]"
    caption = f"{count} runs end at {plain(ends.median())} in the median, {spread}"
    caption += f"; buy and hold at {plain((1.0 + holding).prod())}." if holding is not None else "."
    dates = f"{curves.index[0]:%Y-%m-%d} to {curves.index[-1]:%Y-%m-%d}"
    svg = figure_svg(f"equity-{fold}", lambda axes: plots.equity(axes, curves, holding), f"Fold {fold}: {caption}")
    return figure(f"Fold {fold}, {dates}", svg, caption)


def _health(material: Material) -> list[Markup]:
    titles = {
        "q_gap": ("Q-gap: best minus second-best action value", "train volatilities"),
        "loss/c51": ("C51 loss", "nats"),
        "grad/applied": ("Gradient norm before the clip", "norm"),
        "eval/validation/sharpe": ("Validation Sharpe", "annualised"),
    }
    curves = health_curves(material.experiment, tuple(titles))
    panels = [_health_panel(column, curve, *titles[column]) for column, curve in curves.items()]
    return [figures(panels)] if panels else [element("p", "Nothing has been recorded yet.")]


def _collapse(experiment: Experiment) -> Markup:
    """Signs of collapse at the last epoch."""
    gauges = collapse_gauges(experiment)
    if not gauges:
        return element("p", "Signs of collapse were not recorded.", class_="muted")
    columns = [
        Column("last epoch, base runs"),
        Column("median", "n"),
        Column("lowest", "n"),
        Column("highest", "n"),
        Column(""),
    ]
    rows = [(g.name, f"{g.median:.3g}", f"{g.low:.3g}", f"{g.high:.3g}", g.remark) for g in gauges]
    about = (
        "Shares lie between 0 and 1. Entropy is a share of log 3: 0 when one choice always wins. A unit is dormant "
        "when its mean activation is at most 2.5 % of its layer's. Holding all the time is at distance 0, flat at 1."
    )
    return Markup(element("h3", "Signs of collapse") + table(columns, rows) + element("p", about, class_="muted"))


def _health_panel(column: str, curve: pd.DataFrame, title: str, unit: str) -> Markup:
    first, last = curve["median"].iloc[0], curve["median"].iloc[-1]
    ends = f"Median {first:.3g} at epoch {curve.index[0]}, {last:.3g} at {curve.index[-1]}"
    caption = f"{ends}; band: quartiles of base members."
    svg = figure_svg(f"health-{column}", lambda axes: plots.health_curve(axes, curve, unit), caption, 2.3)
    return figure(title, svg, caption)


def _trials(experiment: Experiment) -> Markup:
    columns = [
        Column("trial", "text"), Column("status"), Column("objective", "n"), Column("Sharpe ± sd", "n"),
        Column("[lo, hi]", "n"), Column("HAC se", "n"), Column("epochs", "n"), Column("time", "n"),
    ]  # fmt: skip
    settings = varied_settings(experiment)
    rows, footers = [], []
    for row in ranked_trials(experiment).to_dict("records"):
        rows.append(
            (
                element("code", row["trial"]),
                badge(row["status"], STATES[row["status"]]),
                signed(row["objective"]),
                mean_and_sd(row["sharpe"], row["sharpe_var"]),
                signed_interval(row["sharpe_lo"], row["sharpe_hi"]),
                plain(row["sharpe_se"]),
                f"{max(row['epochs_recorded'], 0)} of {row['epochs_planned']}",
                duration(row["seconds"]),
            )
        )
        values = ", ".join(f"{name.removeprefix('config/')} {setting(row[name])}" for name in settings)
        unusual = element("div", status) if (status := status_line(row)) else ""
        error = element("div", f"{row['cause']}: {row['error']}") if row["error"] else ""
        command = element("code", debug_command(experiment, row["trial"]))
        footers.append(element("div", element("div", values, class_="muted"), unusual, error, command))
    about = (
        "Best objective first (IQM of validation Sharpe); trials of which at most half of the validation walks are ok "
        "come after the others. Sharpe is the judge score over the seeds of the base arm."
    )
    return Markup(element("p", about, class_="muted") + table(columns, rows, footers))


def _glossary(material: Material) -> Markup:
    periods = material.experiment.periods_per_year
    return definitions(
        [
            (
                "Sharpe",
                f"mean / standard deviation (ddof 1) of net returns per bar, times √{periods:.1f} (bars a year)",
            ),
            (
                "score",
                "Sharpe of a run's judge spans, folds concatenated, averaged over the parameters of the last epochs",
            ),
            ("floor", "a run that froze or went bankrupt scores -3; a run that never trades scores 0"),
            (
                "status",
                "bankrupt, short, no trades, flat: a convention, not an estimate; implausible: beyond ±5, needs a look",
            ),
            ("HAC se", "standard error with Bartlett weights: what sampling of these bars alone gives one run"),
            ("interval", "repeated confidence interval: holds at every look together (Lan-DeMets, Pocock type)"),
            ("unit", "verdicts count configurations: members of one configuration are not independent"),
            ("not inside", "all runs share one market path; no interval here covers another path"),
            ("candidate", "the gradient is there; whether wiring it helps is for the wired arm to show"),
        ]
    )
