"""Figures of stage 2: what wiring a gem did. Each draws on the axes it is given and returns nothing.

Effects are wired minus probed, in annualised Sharpe. A configuration keeps its colour from figure to figure; there are
eight colours, used by turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.plots import COLOURS
from analysis.rules import VerdictRules
from analysis.svg import ACCENT, BAD, GOOD, INK, MUTED, RULE, SERIES
from analysis.verdict import EffectLook, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROBED, WIRED = MUTED, ACCENT
ROW = 0.19  # inches of a configuration in its forest


def colours(configs: Sequence[str]) -> dict[str, str]:
    """The colour of every configuration, in launch order."""
    return {config: SERIES[position % len(SERIES)] for position, config in enumerate(dict.fromkeys(configs))}


def gem_forest(axes: Axes, found: Sequence[Verdict], rules: VerdictRules) -> None:
    """Mean effect of every gem with its repeated interval (thick) and the time-block interval (thin, below).

    A gem that stage 1 settled stands there in grey words: a wide bar would look like harm.
    """
    for row, verdict in enumerate(found):
        colour = COLOURS[verdict.label]
        if verdict.effect is None:
            axes.text(0.02, row, "not judged on Sharpe", color=MUTED, va="center", transform=axes.get_yaxis_transform())
            continue
        look = verdict.effect
        axes.plot([look.low, look.high], [row, row], "-", color=colour, lw=4, solid_capstyle="butt")
        axes.plot([look.estimate], [row], "D", ms=6, color=colour)
        if np.isfinite(verdict.path_interval[0]):
            axes.plot(verdict.path_interval, [row + 0.27] * 2, "-", color=MUTED, lw=1.4, marker="|", ms=5)
    _limits(axes, rules, vertical=True)
    axes.set_yticks(range(len(found)), [verdict.gem for verdict in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlabel("wired − probed, annualised Sharpe")


def _limits(axes: Axes, rules: VerdictRules, vertical: bool) -> None:
    """Lines at 0, at the largest loss accepted (beyond it shaded) and at the smallest gain worth having."""
    line, span = (axes.axvline, axes.axvspan) if vertical else (axes.axhline, axes.axhspan)
    low, high = axes.get_xlim() if vertical else axes.get_ylim()
    low, high = min(low, -1.5 * rules.delta_ni), max(high, 1.2 * rules.delta_benefit)
    span(low, -rules.delta_ni, color=BAD, alpha=0.09, lw=0)
    line(0.0, color=INK, lw=1)
    line(-rules.delta_ni, color=BAD, lw=1, ls="--")
    if rules.policy == "benefit":
        line(rules.delta_benefit, color=GOOD, lw=1, ls=":")
    (axes.set_xlim if vertical else axes.set_ylim)(low, high)


def configuration_forest(axes: Axes, pairs: pd.DataFrame, look: EffectLook | None, units: Sequence[str]) -> None:
    """Mean effect of each configuration (dot) over its pairs (line: their range); last row: the mean and its interval.

    `pairs`: see `scored_pairs`; `units`: configurations in the order of the evidence, those after the look hollow.
    """
    gain = (pairs["treatment"] - pairs["control"]).groupby(pairs["config"], sort=False)
    table = gain.agg(["mean", "min", "max"]).reindex(list(units)).dropna()
    colour, counted = colours(units), set(units[: look.n] if look else units)
    order = table.sort_values("mean", ascending=False)
    for row, (config, values) in enumerate(order.iterrows()):
        own, inside = colour[str(config)], config in counted
        axes.plot([values["min"], values["max"]], [row, row], "-", color=own, lw=1.1, alpha=0.6)
        axes.plot([values["mean"]], [row], "o", ms=4.5, mec=own, mfc=own if inside else "none")
    last = len(order) + 0.4
    if look is not None:
        axes.plot([look.low, look.high], [last, last], "-", color=INK, lw=3, solid_capstyle="butt")
        axes.plot([look.estimate], [last], "D", ms=6, color=INK)
    axes.axvline(0.0, color=MUTED, lw=0.8)
    axes.set_yticks([*range(len(order)), last], [*map(str, order.index), "mean"], fontsize=7.5)
    axes.set_ylim(last + 0.8, -0.8)
    axes.set_xlabel("wired − probed, annualised Sharpe")


def slope(axes: Axes, pairs: pd.DataFrame, units: Sequence[str]) -> None:
    """Every pair as a line from its probed to its wired score, coloured by configuration; thick: their means."""
    colour = colours(units)
    for config, own in pairs.groupby("config", sort=False):
        ends = own[["control", "treatment"]].to_numpy(float)
        gaps = np.column_stack([ends, np.full(len(ends), np.nan)]).ravel()
        axes.plot(np.tile([0.0, 1.0, np.nan], len(ends)), gaps, "-", color=colour[str(config)], lw=0.6, alpha=0.35)
        axes.plot([0.0, 1.0], ends.mean(axis=0), "o-", color=colour[str(config)], lw=1.6, ms=3)
    axes.set_xticks([0.0, 1.0], ["probed", "wired"])
    axes.set_xlim(-0.15, 1.15)
    axes.set_ylabel("judge Sharpe, annualised")


def effect_looks(axes: Axes, found: Verdict, rules: VerdictRules) -> None:
    """Estimate and repeated interval at each look; the look that decided has a ring."""
    looks = found.effect_looks
    x = np.arange(len(looks))
    colour = COLOURS[found.label]
    axes.fill_between(x, [k.low for k in looks], [k.high for k in looks], color=colour, alpha=0.18, lw=0)
    for at, look in zip(x, looks, strict=True):
        axes.plot([at, at], [look.low, look.high], "-", color=colour, lw=1.4, alpha=0.7)
    axes.plot(x, [k.estimate for k in looks], "o-", color=colour, lw=1.6, ms=5)
    for at, look in zip(x, looks, strict=True):
        if found.stage == 2 and look.n == found.n:
            axes.plot([at], [look.estimate], "o", ms=11, mfc="none", mec=INK)
    _limits(axes, rules, vertical=False)
    axes.set_xticks(x, [str(look.n) for look in looks])
    axes.set_xlim(-0.4, max(len(looks) - 0.6, 0.4))
    axes.set_xlabel("configurations at the look" if rules.unit == "configuration" else "seeds at the look")
    axes.set_ylabel("wired − probed, Sharpe")


def deviations(axes: Axes, control: NDArray[np.float64], treatment: NDArray[np.float64]) -> None:
    """|score - median of its configuration and arm| of every run, probed above and wired below; tick: the mean."""
    for row, (values, colour) in enumerate(((control, PROBED), (treatment, WIRED))):
        spread = np.random.default_rng(row).uniform(-0.25, 0.25, len(values))
        axes.plot(values, row + spread, "o", ms=3, color=colour, alpha=0.45, mew=0)
        axes.plot([values.mean()] * 2, [row - 0.38, row + 0.38], "-", color=INK, lw=2)
    axes.set_yticks([0, 1], ["probed", "wired"])
    axes.set_ylim(1.55, -0.55)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("distance from the configuration's median, Sharpe")


def profile(axes: Axes, control: NDArray[np.float64], treatment: NDArray[np.float64]) -> None:
    """Share of runs above each Sharpe, both arms."""
    low, high = float(min(control.min(), treatment.min())), float(max(control.max(), treatment.max()))
    edge = 0.05 * max(high - low, 0.1)
    for values, colour, style, name in ((control, PROBED, "--", "probed"), (treatment, WIRED, "-", "wired")):
        x = np.concatenate([[low - edge], np.sort(values), [high + edge]])
        above = np.concatenate([[1.0], 1.0 - np.arange(1, len(values) + 1) / len(values), [0.0]])
        axes.step(x, above, where="post", color=colour, ls=style, lw=1.8, label=name)
    axes.set_xlim(low - edge, high + edge)
    axes.set_ylim(0.0, 1.02)
    axes.legend(loc="best", fontsize=8)
    axes.set_xlabel("judge Sharpe, annualised")
    axes.set_ylabel("share of runs above")


def half_widths(axes: Axes, curves: dict[str, tuple[NDArray[np.int64], NDArray[np.float64], int]], loss: float) -> None:
    """Half-width of the repeated interval against configurations, per gem; filled: looks taken; dashed: `loss`.

    `curves`: gem -> (configurations of each look, half-widths, how many configurations there are).
    """
    for (name, (sizes, widths, now)), colour in zip(curves.items(), _turns(len(curves)), strict=True):
        axes.plot(sizes, widths, "-", color=colour, lw=1.6, label=name)
        taken = sizes <= now
        axes.plot(sizes[taken], widths[taken], "o", ms=5, color=colour)
        axes.plot(sizes[~taken], widths[~taken], "o", ms=5, mfc="none", mec=colour)
    axes.axhline(loss, color=BAD, lw=1, ls="--")
    axes.set_ylim(0.0, min(float(axes.get_ylim()[1]), 8.0 * loss))
    axes.set_xlim(left=0.0)
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.legend(loc="upper right", fontsize=8)
    axes.set_xlabel("configurations")
    axes.set_ylabel("half-width, Sharpe")


def _turns(count: int) -> list[str]:
    return [SERIES[position % len(SERIES)] for position in range(count)]
