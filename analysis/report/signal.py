"""6. Is the signal there, and is it new? Size against the limit of zero, and what else explains or replaces it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis import plots
from analysis.ablation import Ablation
from analysis.evidence import complete_signals, signal_units
from analysis.page import Column, Markup, element, figure, figures, muted, section, table
from analysis.redundancy import CoMovement
from analysis.report.material import Material
from analysis.report.signal_plots import co_movements, together
from analysis.svg import figure_svg, label_room
from analysis.tables import ablation_words
from analysis.text import ABSENT, percent, percent_interval, plain, signed
from analysis.verdict import Verdict

TITLE = "Is the signal there, and is it new?"


def signal(material: Material) -> Markup:
    """The section."""
    if not material.verdicts:
        return section(TITLE, element("p", "No gem has been measured yet."), anchor="signal", number=6)
    there = figures([_sizes(material), *(_over_epochs(material, found) for found in material.verdicts)])
    new = [_explained(material), *(panel for v in material.verdicts if (panel := _together(material, v)))]
    heads = [element("h3", title) for title in ("Is it there?", "Is it new?")]
    content = [heads[0], there, _by_slice(material), heads[1], _ablations(material), figures(new), _untested(material)]
    return section(TITLE, *content, anchor="signal", number=6)


def _sizes(material: Material) -> Markup:
    looked = [(found.gem, found.signal) for found in material.verdicts if found.signal]
    numbers = "; ".join(f"{gem} {percent(k.estimate)} {percent_interval(k.low, k.high)}" for gem, k in looked)
    about = (
        "Dots: configurations (hollow: off the axis). Diamond and bar: mean and interval at the look that settled the "
    )
    about += "signal; a bar that meets the edge goes on beyond it."
    caption = f"{numbers or 'No look yet'}. {about}"
    height, room = 0.9 + 0.5 * len(material.sizes), label_room(material.sizes)
    limit, found = material.rules.zero_limit, material.verdicts
    svg = figure_svg("sizes", lambda axes: plots.gem_sizes(axes, found, material.sizes, limit), caption, height, room)
    return figure("Size by configuration", svg, caption)


def _over_epochs(material: Material, found: Verdict) -> Markup:
    panel = size_panel(material.evidence[found.gem])
    if panel.empty:
        return element("p", f"{found.gem} has not been measured.")
    first, last = percent(_geometric(panel.iloc[0])), percent(_geometric(panel.iloc[-1]))
    ends = f"Geometric mean {first} at epoch {panel.index[0]}, {last} at {panel.index[-1]}"
    text = f"{ends}. Thin: configurations; dashed: limit."
    colour, limit = plots.COLOURS[found.label], material.rules.zero_limit
    svg = figure_svg(f"epochs-{found.gem}", lambda axes: plots.size_over_epochs(axes, panel, limit, colour), text)
    return figure(f"{found.gem}: size over epochs", svg, text)


def size_panel(rows: pd.DataFrame) -> pd.DataFrame:
    """Size by epoch and configuration from the rows of `analysis.signals`: geometric means over members."""
    return rows[rows["epoch"] > 0].pivot_table(index="epoch", columns="config", values="size", aggfunc=_geometric)


def _geometric(values: pd.Series) -> float:
    positive = values[values > 0.0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else 0.0


def _by_slice(material: Material) -> Markup:
    parts = list(dict.fromkeys(name for found in material.verdicts for name in found.slices))
    if not parts:
        return Markup()
    columns = [Column("size by slice", "text"), *(Column(part, "n") for part in parts)]
    rows = [
        (
            element("strong", found.gem),
            *(percent(found.slices[part]) if part in found.slices else "-" for part in parts),
        )
        for found in material.verdicts
    ]
    return table(columns, rows)


def _ablations(material: Material) -> Markup:
    """The gem's size with each feature off: the first evidence of redundancy."""
    tested = [(found, result) for found in material.verdicts for result in found.ablations]
    if not tested:
        return muted("Ablation: no arm without a feature has been measured, so only co-movement is told below.")
    columns = [
        Column("gem", "text"), Column("without", "text"), Column("size with it", "n"), Column("size without it", "n"),
        Column("n", "n"), Column("so", "text"),
    ]  # fmt: skip
    rows = [(element("strong", found.gem), result.feature, *_ablation_cells(found, result)) for found, result in tested]
    about = "Ablation: a gem whose size is zero with a feature on and not with it off repeats what that feature does."
    return Markup(table(columns, rows) + muted(about))


def _ablation_cells(found: Verdict, result: Ablation) -> tuple[str, str, int, str]:
    look = found.signal
    with_it = f"{percent(look.estimate)} {percent_interval(look.low, look.high)}" if look else ABSENT
    without = f"{percent(result.estimate)} {percent_interval(result.low, result.high)}"
    return with_it, without if result.state != "too few" else ABSENT, result.n, ablation_words(found, result)


def _explained(material: Material) -> Markup:
    rows = [(f"{v.gem}: {r.feature}", r) for v in material.verdicts for r in v.redundancy if not r.untested]
    if not rows:
        return muted("Co-movement with existing features could not be tested.")
    limit = material.rules.redundant_r2
    numbers = "; ".join(f"{label} {signed(r.value)} (se {plain(r.se)}, {r.basis})" for label, r in rows)
    text = f"{numbers}. Bar: ± one standard error. Redundant is what lies above {limit:g} with its whole interval."
    height, room = 0.9 + 0.32 * len(rows), min(label_room(label for label, _ in rows), 2.7)
    svg = figure_svg("explained", lambda axes: co_movements(axes, rows, limit), text, height, room)
    return figure("How much of a gem an existing feature explains", svg, text)


def _together(material: Material, found: Verdict) -> Markup:
    """Epoch curves of the gem and the feature that explains most of it, empty when none could be tested."""
    tested = [result for result in found.redundancy if not result.untested]
    if not tested:
        return Markup()
    best = max(tested, key=lambda result: result.value)
    rows = complete_signals(material.evidence[found.gem])
    units, names, _ = signal_units(rows, material.rules)
    gem, feature = units.panels[best.feature].by_unit()
    epochs = np.flatnonzero(np.isfinite(gem).all(axis=0) & np.isfinite(feature).all(axis=0))
    text = _together_text(found, best, len(names))
    svg = figure_svg(
        f"together-{found.gem}",
        lambda axes: together(axes, gem[:, epochs], feature[:, epochs], names, list(epochs)),
        text, 2.7, label_room(names[:1]),
    )  # fmt: skip
    return figure(f"{found.gem} beside {best.feature}", svg, text)


def _together_text(found: Verdict, best: CoMovement, count: int) -> str:
    shown = "the first three configurations" if count > 3 else "each configuration"
    return (
        f"{best.feature} explains most of {found.gem}: R² {signed(best.value)}. Solid: the gem's size; dashed: the "
        f"feature, in {shown}; both without the means of configurations and epochs, in standard deviations."
    )


def _untested(material: Material) -> Markup:
    rows = [f"{v.gem} with {r.feature} ({r.untested})" for v in material.verdicts for r in v.redundancy if r.untested]
    return muted(f"Redundancy not tested: {'; '.join(rows)}.") if rows else Markup()
