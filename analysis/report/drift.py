"""5. Did the answer drift while trials came in? Every look of both stages, as taken in launch order."""

from __future__ import annotations

from analysis.page import Column, Markup, details, element, figure, figures, muted, section, table
from analysis.report.effect_plots import effect_looks
from analysis.report.material import Material
from analysis.report.signal_plots import size_looks
from analysis.svg import figure_svg
from analysis.text import percent, percent_interval, plain, signed, signed_interval
from analysis.verdict import Verdict

TITLE = "Did the answer drift while trials came in?"
ABOUT = (
    "Trials enter in launch order, whenever they finished. A repeated interval may be looked at as often as the "
    "schedule says; the first look that shows something decides (ring), and later looks cannot take a WIRE back."
)


def drift(material: Material) -> Markup:
    """The section."""
    looked = [found for found in material.verdicts if found.looks]
    if not looked:
        first = material.rules.schedule[0]
        text = f"No look has been taken: the first is at {first} {material.units}."
        return section(TITLE, element("p", text), anchor="looks", number=5)
    panels = [_effect(material, found) for found in looked if found.effect_looks]
    panels += [_signal(material, found) for found in looked]
    tables = [details(Markup(element("strong", v.gem) + ": every look in numbers"), *_tables(v)) for v in looked]
    return section(TITLE, muted(ABOUT), figures(panels), *tables, anchor="looks", number=5)


def _effect(material: Material, found: Verdict) -> Markup:
    looks = found.effect_looks
    told = "; ".join(
        f"at {k.n} {signed(k.estimate)} {signed_interval(k.low, k.high)}" for k in (looks[0], *looks[1:][-1:])
    )
    text = f"{told}. Dashed: −{material.rules.delta_ni:g}, the largest loss accepted."
    svg = figure_svg(f"looks-{found.gem}", lambda axes: effect_looks(axes, found, material.rules), text, 2.6)
    return figure(f"{found.gem}: effect at each look", svg, text)


def _signal(material: Material, found: Verdict) -> Markup:
    looks = found.looks
    told = "; ".join(
        f"at {k.n} {percent(k.estimate)} {percent_interval(k.low, k.high)}" for k in (looks[0], *looks[1:][-1:])
    )
    text = f"{told}. Dashed: limit of zero."
    svg = figure_svg(f"sizes-{found.gem}", lambda axes: size_looks(axes, found, material.rules), text, 2.6, 0.95)
    return figure(f"{found.gem}: size at each look", svg, text)


def _tables(found: Verdict) -> list[Markup]:
    sizes = table(
        [Column("signal at", "n"), Column("size", "n"), Column("interval", "n"), Column("finding")],
        [(k.n, percent(k.estimate), percent_interval(k.low, k.high), k.finding) for k in found.looks],
    )
    if not found.effect_looks:
        return [sizes]
    columns = [
        Column("effect at", "n"), Column("Sharpe", "n"), Column("interval", "n"), Column("steadiness bound", "n"),
        Column("failures bound", "n"), Column("finding"),
    ]  # fmt: skip
    rows = [
        (
            k.n,
            signed(k.estimate),
            signed_interval(k.low, k.high),
            _bound(k.steadiness),
            plain(k.collapse),
            k.finding or "open",
        )
        for k in found.effect_looks
    ]
    return [sizes, table(columns, rows)]


def _bound(value: float) -> str:
    return signed(value)
