"""After the questions: the further arms, the health of training, and where gradient went."""

from __future__ import annotations

import pandas as pd

from analysis import plots
from analysis.collapse import collapse_gauges
from analysis.further import further_arms
from analysis.health import health_curves
from analysis.load import Experiment
from analysis.matrix import norm_matrix
from analysis.page import Column, Markup, element, figure, figures, muted, section, table
from analysis.svg import figure_svg
from analysis.text import ABSENT, signed, signed_interval

CURVES = {
    "q_gap": ("Q-gap: best minus second-best action value", "train volatilities"),
    "loss/c51": ("C51 loss", "nats"),
    "grad/applied": ("Gradient norm before the clip", "norm"),
    "eval/validation/sharpe": ("Validation Sharpe", "annualised"),
}


def further(experiment: Experiment) -> Markup:
    """The arms beside the base arm."""
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
    about = (
        "Told as they are, looks or not: pairs are runs of one configuration and seed, the arm's and the base arm's."
    )
    content = table(columns, rows) + muted(about) if rows else element("p", "Every run is of the base arm.")
    return section("Further arms", Markup(content), anchor="arms")


def health(experiment: Experiment) -> Markup:
    """Curves over epochs and signs of collapse, of the base arm."""
    curves = health_curves(experiment, tuple(CURVES))
    panels = [health_panel(column, curve, *CURVES[column]) for column, curve in curves.items()]
    shown = figures(panels) if panels else element("p", "Nothing has been recorded yet.")
    return section("Health of training", shown, collapse(experiment), anchor="health")


def health_panel(column: str, curve: pd.DataFrame, title: str, unit: str) -> Markup:
    """Median and quartiles of a recorded column over epochs; `curve`: see `analysis.health.health_curves`."""
    first, last = curve["median"].iloc[0], curve["median"].iloc[-1]
    ends = f"Median {first:.3g} at epoch {curve.index[0]}, {last:.3g} at {curve.index[-1]}"
    caption = f"{ends}; band: quartiles of base members."
    svg = figure_svg(f"health-{column}", lambda axes: plots.health_curve(axes, curve, unit), caption, 2.3)
    return figure(title, svg, caption)


def collapse(experiment: Experiment) -> Markup:
    """Signs of collapse at the last epoch."""
    gauges = collapse_gauges(experiment)
    if not gauges:
        return muted("Signs of collapse were not recorded.")
    columns = [
        Column("last epoch, base runs"),
        *(Column(name, "n") for name in ("median", "lowest", "highest")),
        Column(""),
    ]
    rows = [(g.name, f"{g.median:.3g}", f"{g.low:.3g}", f"{g.high:.3g}", g.remark) for g in gauges]
    about = (
        "Shares lie between 0 and 1. Entropy is a share of log 3: 0 when one choice always wins. A unit is dormant "
        "when its mean activation is at most 2.5 % of its layer's. Holding all the time is at distance 0, flat at 1."
    )
    return Markup(element("h3", "Signs of collapse") + table(columns, rows) + muted(about))


def gradients(experiment: Experiment) -> Markup:
    """Norms by component and slice."""
    return section("Gradient norms by component and slice", *norm_matrix(experiment), anchor="gradients")
