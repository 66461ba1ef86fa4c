"""8. What would more trials buy? Width of the interval to come, and what it costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.load import Experiment
from analysis.outlook import EFFECTS, SD, Look, outlook
from analysis.page import Column, Markup, bullets, element, figure, figures, muted, section, table
from analysis.report.effect_plots import half_widths
from analysis.report.material import Material
from analysis.svg import figure_svg
from analysis.text import duration, percent, plain
from analysis.verdict import Verdict

TITLE = "What would more trials buy?"
Curve = tuple[NDArray[np.int64], NDArray[np.float64], int]


def more(material: Material) -> Markup:
    """The section."""
    if not material.verdicts:
        return section(TITLE, element("p", "No gem has been measured yet."), anchor="more", number=8)
    curves = {found.gem: looks for found in material.wired if (looks := _looks(material, found))}
    drawn = figures([_figure(material, curves), _powers(material, curves)])
    return section(TITLE, bullets(_lines(material)), drawn, anchor="more", number=8)


def _looks(material: Material, found: Verdict) -> list[Look]:
    """Every look of the schedule, with the spread of the effects seen so far."""
    spread = spread_of(found)
    if not spread > 0.0:
        return []
    return outlook(material.rules, material.claims, spread, material.rules.schedule[-1])


def spread_of(found: Verdict) -> float:
    """Standard deviation of the effect between units; NaN for fewer than two."""
    values = np.array([unit.difference for unit in found.effects])
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _figure(material: Material, found: dict[str, list[Look]]) -> Markup:
    now = {verdict.gem: len(verdict.effects) for verdict in material.verdicts}
    shown = found or {f"sd {SD:g} assumed": outlook(material.rules, material.claims, SD, material.rules.schedule[-1])}
    curves: dict[str, Curve] = {
        name: (np.array([k.n for k in looks]), np.array([k.half_width for k in looks]), now.get(name, 0))
        for name, looks in shown.items()
    }
    ends = "; ".join(f"{name} ±{looks[0].half_width:.2f} at {looks[0].n}, ±{looks[-1].half_width:.2f} at {looks[-1].n}"
                     for name, looks in shown.items())  # fmt: skip
    text = (
        f"{ends}. Filled: looks that the finished pairs allow. Dashed: {material.rules.delta_ni:g}, the loss accepted."
    )
    loss = material.rules.delta_ni
    svg = figure_svg("more", lambda axes: half_widths(axes, curves, loss), text, 2.8)
    return figure(f"Half-width of the repeated interval by {material.units}", svg, text)


def _powers(material: Material, found: dict[str, list[Look]]) -> Markup:
    """Chance that one look shows an effect, for the gem that spreads most: the others need fewer."""
    widest = max(found, key=lambda gem: found[gem][0].half_width) if found else ""
    looks = found.get(widest) or outlook(material.rules, material.claims, SD, material.rules.schedule[-1])
    columns = [Column(material.units, "n"), Column("half-width", "n")]
    columns += [Column(f"sees +{effect:g}", "n") for effect in EFFECTS]
    rows = [(k.n, f"±{k.half_width:.2f}", *(percent(power) for power in k.power)) for k in looks]
    whose = f"of {widest}" if widest else f"assumed, {SD:g}: nothing has been wired yet"
    about = f"With the spread {whose}. “Sees”: chance that this look alone puts a true gain of that size above 0."
    return element("div", table(columns, rows), muted(about))


def _lines(material: Material) -> list[str]:
    cost = seconds_per_unit(material.experiment)
    lines = [_line(material, found, cost) for found in material.verdicts]
    if np.isfinite(cost):
        lines.append(f"one more configuration takes {duration(cost)} of a machine (median of the finished trials)")
    return lines


def _line(material: Material, found: Verdict, cost: float) -> str:
    if not found.needed:
        why = "no look of the schedule would decide it" if found.grade == "undecided" else "nothing is waiting for more"
        return f"{found.gem}: {found.title}; {why}{_wire(found)}"
    have = len(found.effects) if found.stage == 2 else found.n
    extra = max(found.needed - have, 0)
    price = f", about {duration(extra * cost)} of a machine" if np.isfinite(cost) and extra else ""
    spread = f"; effects spread with sd {plain(spread_of(found))}" if found.stage == 2 else ""
    return f"{found.gem}: {found.needed} {material.units} may decide, {extra} more than now{price}{spread}"


def _wire(found: Verdict) -> str:
    return ": what it waits for is a wired arm" if found.grade == "candidate" else ""


def seconds_per_unit(experiment: Experiment) -> float:
    """Machine time of one configuration, seconds: median over those whose trials are all done."""
    trials = experiment.trials
    done = trials.groupby("config")["status"].transform(lambda states: states.eq("done").all())
    per_config = trials[done.astype(bool)].groupby("config")["seconds"].sum()
    positive = per_config[per_config > 0.0]
    return float(positive.median()) if len(positive) else float("nan")
