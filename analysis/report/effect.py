"""3. How big is the effect, and could it be harmful? One row a gem, all on one axis."""

from __future__ import annotations

from analysis.page import Column, Markup, element, figure, muted, section, table
from analysis.report.effect_plots import gem_forest
from analysis.report.marks import PATH_WORDS, effect_text, path_text, verdict_badge
from analysis.report.material import Material
from analysis.svg import figure_svg, label_room
from analysis.text import ABSENT, percent, signed, signed_interval
from analysis.verdict import Verdict

TITLE = "How big is the effect, and could it be harmful?"


def effect(material: Material) -> Markup:
    """The section."""
    if not any(found.effect for found in material.verdicts):
        text = "No gem has enough wired pairs for a look at its effect: nothing is said about Sharpe yet."
        return section(TITLE, element("p", text), _table(material), anchor="effect", number=3)
    content = [_forest(material), _table(material), muted(PATH_WORDS)]
    return section(TITLE, *content, anchor="effect", number=3)


def _forest(material: Material) -> Markup:
    found, rules = material.verdicts, material.rules
    numbers = [
        f"{v.gem} {signed(v.effect.estimate)} {signed_interval(v.effect.low, v.effect.high)}"
        if v.effect
        else f"{v.gem} not judged on Sharpe"
        for v in found
    ]
    about = (
        f"{'; '.join(numbers)}. Diamond and thick bar: mean and repeated interval at the last look; thin: time blocks. "
    )
    about += f"Shaded: losses beyond {rules.delta_ni:g}"
    about += f"; dotted: {rules.delta_benefit:g}, a gain worth having." if rules.policy == "benefit" else "."
    height, room = 0.95 + 0.52 * len(found), label_room(v.gem for v in found)
    svg = figure_svg("effects", lambda axes: gem_forest(axes, found, rules), about, height, room)
    return figure("Effect of wiring", svg, about)


def _table(material: Material) -> Markup:
    columns = [
        Column("gem", "text"), Column("verdict", "text"), Column("dose", "n"), Column("Sharpe, repeated interval", "n"),
        Column("time blocks, 90 %", "n"), Column("at", "n"), Column("pairs that gain", "n"),
    ]  # fmt: skip
    rows = [_row(material, found) for found in material.wired]
    return table(columns, rows) if rows else Markup()


def _row(material: Material, found: Verdict) -> tuple[object, ...]:
    pairs = sum(unit.pairs for unit in found.effects)
    at = f"{found.effect.n} {material.units}" if found.effect else f"{len(found.effects)} {material.units}, no look yet"
    return (
        element("strong", found.gem), verdict_badge(found), f"{found.dose:g}", effect_text(found.effect),
        path_text(found), at, f"{percent(found.win_rate)} of {pairs}" if pairs else ABSENT,
    )  # fmt: skip
