"""4. Is it one configuration or one lucky seed? Each pair, each configuration, and the base arm."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis import plots
from analysis.page import Column, Markup, badge, bullets, element, figure, figures, muted, section, table
from analysis.report.effect_plots import ROW, configuration_forest, slope
from analysis.report.material import Material
from analysis.spread import best_epochs, variance_sources
from analysis.statistics import chaos_floor
from analysis.svg import figure_svg, label_room
from analysis.tables import baseline_lines
from analysis.text import ABSENT, percent, plain, signed, signed_interval
from analysis.verdict import Verdict

TITLE = "Is it one configuration or one lucky seed?"
NOISE = "noise"  # the arm that repeats each seed with its initial weights moved by one ulp


def configurations(material: Material) -> Markup:
    """The section."""
    content = [part for found in material.wired for part in _of_gem(material, found)]
    if not content:
        content = [element("p", "No gem has a wired arm with a finished pair.")]
    spread = element("h3", "The base arm alone: how far Sharpe ratios spread")
    return section(TITLE, *content, element("div", spread, *_spread(material), id="spread"), anchor="units", number=4)


def _of_gem(material: Material, found: Verdict) -> list[Markup]:
    pairs, units = material.pairs(found), [unit.unit for unit in found.effects]
    if material.rules.unit == "seed":
        units = list(dict.fromkeys(pairs["config"]))
    ends = pairs[["control", "treatment"]].mean()
    told = f"{len(pairs)} pairs, mean {signed(ends['control'])} probed and {signed(ends['treatment'])} wired; "
    told += f"{percent(found.win_rate)} of them gain. Thin: pairs; thick: configuration means."
    ladder = figure_svg(f"slope-{found.gem}", lambda axes: slope(axes, pairs, units), told, 3.1)
    height, room = 0.75 + ROW * (len(units) + 2), label_room([*units, "mean"]) - 0.1
    text = _forest_text(found)
    forest = figure_svg(
        f"units-{found.gem}", lambda axes: configuration_forest(axes, pairs, found.effect, units), text, height, room
    )
    title = element("h3", f"{found.gem}, wired at a dose of {found.dose:g}")
    drawn = [figure("Every pair, probed to wired", ladder, told), figure("Every configuration", forest, text)]
    return [title, bullets(_lines(found)), figures(drawn)]


def _forest_text(found: Verdict) -> str:
    text = "Dot: mean of a configuration's pairs; line: their range. "
    if found.effect is None:
        return text + "No look yet, so no interval of the mean."
    shown = f"{signed(found.effect.estimate)} {signed_interval(found.effect.low, found.effect.high)}"
    later = len(found.effects) - found.effect.n
    rest = f" Hollow: {later} after the last look." if later > 0 else ""
    return f"{text}Last row: mean and repeated interval at {found.effect.n}, {shown}.{rest}"


def _lines(found: Verdict) -> list[str]:
    values = np.array([unit.difference for unit in found.effects])
    lines = [
        f"{int((values > 0).sum())} of {len(values)} configurations gain on average, {percent(found.win_rate)} of pairs"
    ]
    if len(values) > 1:
        rest = (values.sum() - values) / (len(values) - 1)
        same = "the sign does not change" if (np.sign(rest) == np.sign(values.mean())).all() else "THE SIGN CHANGES"
        lines.append(
            f"leaving out any one configuration the mean lies in {signed_interval(rest.min(), rest.max())}: {same}"
        )
        lines.append(f"between configurations the effect has sd {plain(values.std(ddof=1))}")
    return lines + ([f"fragile: {found.reason}"] if found.grade == "fragile" else [])


def _spread(material: Material) -> list[Markup]:
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
    height, room = 1.0 + min(0.24, 8.0 / len(means)) * len(means), label_room(means.index)
    svg = figure_svg("sharpe", lambda axes: plots.sharpe_strip(axes, scores, holding), caption, height, room)
    drawn = figures([figure("Judge Sharpe by configuration", svg, caption), _variances(material)])
    return [drawn, bullets([*baseline_lines(experiment, material.holding), *_chaos(experiment.scores)])]


def _variances(material: Material) -> Markup:
    experiment = material.experiment
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
    about = (
        "For seeds and folds [lo, hi] are deviations from their group's mean. Intervals assume normal values. The "
        "means of configurations differ by their seeds too; net is what is left of that variance without them."
    )
    selected = element(
        "p", badge("SELECTED", ""), f" {best.text}: best epoch on validation, never judged.", class_="muted"
    )
    return element("div", table(columns, rows), muted(about), selected if best.runs else "")


def _chaos(scores: pd.DataFrame) -> list[str]:
    """Where an arm repeats the seeds with one ulp of difference: how much of the spread is chaos."""
    if NOISE not in set(scores["arm"]):
        return []
    try:
        return [chaos_floor(scores, arm=NOISE).text]
    except ValueError as error:
        return [f"the chaos floor is not known: {error}"]
