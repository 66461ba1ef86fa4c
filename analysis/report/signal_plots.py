"""Figures of stage 1: is the gem's gradient there, and does it only repeat what exists? Each draws on given axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.plots import COLOURS, share_label
from analysis.redundancy import CoMovement, demean
from analysis.rules import VerdictRules
from analysis.svg import ACCENT, INK, MUTED, WARN
from analysis.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Matrix = NDArray[np.float64]
MOST_CURVES = 3  # configurations of which the epoch curves are drawn
APART = 6.0  # standard deviations between them


def size_looks(axes: Axes, found: Verdict, rules: VerdictRules) -> None:
    """Size and its repeated interval at each look, on a log axis, against the limit of zero."""
    looks, colour = found.looks, COLOURS[found.label]
    x = np.arange(len(looks))
    low = max(min(min(k.low for k in looks), rules.zero_limit) / 3.0, 1e-6)
    ends = np.maximum([[k.low, k.high] for k in looks], low)
    axes.fill_between(x, ends[:, 0], ends[:, 1], color=colour, alpha=0.18, lw=0)
    for at, (bottom, top) in zip(x, ends, strict=True):
        axes.plot([at, at], [bottom, top], "-", color=colour, lw=1.4, alpha=0.7)
    axes.plot(x, np.maximum([k.estimate for k in looks], low), "o-", color=colour, lw=1.6, ms=5)
    axes.axhline(rules.zero_limit, color=INK, lw=1, ls="--")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(share_label)
    axes.minorticks_off()
    axes.set_ylim(low / 1.5, max(float(ends.max()), rules.zero_limit) * 3.0)
    axes.set_xticks(x, [str(look.n) for look in looks])
    axes.set_xlim(-0.4, max(len(looks) - 0.6, 0.4))
    axes.set_xlabel("configurations at the look" if rules.unit == "configuration" else "seeds at the look")
    axes.set_ylabel("share of |c51_bs|")


def co_movements(axes: Axes, found: Sequence[tuple[str, CoMovement]], limit: float) -> None:
    """R^2 of a gem given each existing feature, with one standard error to either side, and the limit of redundancy.

    `found`: (label of the row, result), tested ones only.
    """
    for row, (_, result) in enumerate(found):
        colour = WARN if result.value >= limit else ACCENT
        ends = max(result.value - result.se, -0.25), min(result.value + result.se, 1.02)
        axes.plot(ends, [row, row], "-", color=colour, lw=3, solid_capstyle="butt", alpha=0.6)
        axes.plot([max(result.value, -0.25)], [row], "D", ms=5, color=colour)
    axes.axvline(limit, color=INK, lw=1, ls="--")
    axes.axvline(0.0, color=MUTED, lw=0.8)
    axes.set_yticks(range(len(found)), [label for label, _ in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(-0.28, 1.05)
    axes.set_xlabel(f"R² out of sample, after common trends are removed; dashed: limit {limit:g}")


def together(axes: Axes, gem: Matrix, feature: Matrix, configs: Sequence[str], epochs: Sequence[int]) -> None:
    """The gem (solid) and a feature (dashed) over epochs in the first configurations, without means of either way.

    `gem`, `feature` [units, epochs], both without gaps; each is scaled to its own standard deviation.
    """
    shown = min(len(configs), MOST_CURVES)
    for values, style, colour in ((feature, "--", INK), (gem, "-", ACCENT)):
        rest = demean(values)
        scaled = rest / max(float(rest.std()), 1e-300)
        for row in range(shown):
            axes.plot(list(epochs), scaled[row] - APART * row, style, color=colour, lw=1.3)
    axes.set_yticks([-APART * row for row in range(shown)], list(configs[:shown]), fontsize=8)
    axes.set_ylim(-APART * (shown - 1) - APART / 1.6, APART / 1.6)
    axes.set_xlabel("epoch")
