"""The figures of the report. Each function draws on the matplotlib axes that it is given and returns nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.svg import ACCENT, BAD, GOOD, INK, MUTED, RULE, WARN
from analysis.text import TIMES, percent
from analysis.verdict import Look, Verdict
from trainer.sharpe import FLOOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"DELETE": BAD, "INVALID": BAD, "MORE TRIALS": WARN, "WIRE": GOOD}
MOST_LINES = 48  # beyond, single runs are no longer told apart: a band is drawn
MOST_POINTS = 150  # of one line


def gem_sizes(axes: Axes, found: list[Verdict], sizes: Mapping[str, np.ndarray], limit: float) -> None:
    """Size of each gem per configuration on a log axis, its interval at the look that settled it, and the limit.

    `sizes`: gem -> shares of |c51_bs|, one a configuration. What is below the axis stands at its left edge, hollow.
    """
    low = _log_floor(sizes, limit)
    for row, verdict in enumerate(found):
        colour = COLOURS[verdict.label]
        _size_dots(axes, sizes[verdict.gem], row + 0.18, low, colour)
        if verdict.signal is not None:
            _size_interval(axes, verdict.signal, row - 0.15, low, colour)
    axes.axvline(limit, color=INK, lw=1, ls="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(share_label)
    axes.minorticks_off()
    axes.set_xlim(low / 1.6, max(max((v.max() for v in sizes.values() if len(v)), default=1.0) * 2.0, 10.0 * limit))
    axes.set_yticks(range(len(found)), [verdict.gem for verdict in found])
    axes.set_ylim(len(found) - 0.5, -0.6)
    axes.set_xlabel(f"size as a share of |c51_bs|; dashed: limit {100 * limit:g} %")


def _size_dots(axes: Axes, values: np.ndarray, y: float, low: float, colour: str) -> None:
    zero = values <= low
    rows = np.full(len(values), y)
    axes.plot(values[~zero], rows[~zero], "o", ms=4.5, color=colour, alpha=0.55, mew=0)
    axes.plot(np.full(zero.sum(), low), rows[zero], "o", ms=4.5, mfc="none", mec=colour)


def _size_interval(axes: Axes, look: Look, y: float, low: float, colour: str) -> None:
    axes.plot(np.maximum([look.low, look.high], low), [y, y], "-", color=colour, lw=3, solid_capstyle="butt")
    drawn = look.estimate > low
    axes.plot([max(look.estimate, low)], [y], "D", ms=5, mec=colour, mfc=colour if drawn else "none")
    if not drawn:
        axes.text(low * 1.15, y, percent(look.estimate), va="center", color=colour)


def share_label(value: float, _position: float) -> str:
    """Of a tick on an axis of shares."""
    return f"{value:g} ×" if value >= TIMES else f"{100.0 * value:g} %"


def _whole_epochs(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")


def _log_floor(sizes: Mapping[str, np.ndarray], limit: float) -> float:
    positive = [values[values > 1e-9].min() for values in sizes.values() if (values > 1e-9).any()]
    return min([limit / 10.0, *(value / 2.0 for value in positive)])


def size_over_epochs(axes: Axes, panel: pd.DataFrame, limit: float, colour: str) -> None:
    """`panel`: epoch x configuration, size as a share of |c51_bs|; thin: configurations, thick: geometric mean."""
    positive = panel.where(panel > 0.0)
    shown = positive.iloc[:, :MOST_LINES]
    axes.plot(shown.index, shown.to_numpy(), "-", color=colour, lw=0.8, alpha=0.4)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.exp(np.log(positive).mean(axis=1))
    if mean.notna().any():
        axes.plot(mean.index, mean, "-", color=colour, lw=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(share_label)
        axes.minorticks_off()
        low, high = float(np.nanmin(positive.to_numpy())), float(np.nanmax(positive.to_numpy()))
        axes.set_ylim(min(low, limit) / 2.0, max(high, limit) * 2.0)
        axes.axhline(limit, color=INK, lw=1, ls="--")
    else:
        axes.text(0.5, 0.5, "exactly 0 at every epoch", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
        axes.set_xlim(panel.index.min(), panel.index.max() + 1)
    _whole_epochs(axes)


def sharpe_strip(axes: Axes, scores: pd.DataFrame, holding: float | None) -> None:
    """Scores of the base runs by configuration: dots are seeds, the tick their mean, the line +- one HAC error."""
    order = scores.groupby("config", sort=False)["sharpe"].mean().sort_values(ascending=False)
    for row, (config, mean) in enumerate(order.items()):
        own = scores[scores["config"] == config]
        error = own["sharpe_se"].mean()
        axes.plot([mean - error, mean + error], [row, row], "-", color=RULE, lw=5, solid_capstyle="butt", zorder=1)
        fine, failed = own[~own["failed"]], own[own["failed"]]
        axes.plot(fine["sharpe"], np.full(len(fine), row), "o", ms=4.5, color=ACCENT, alpha=0.75, mew=0)
        axes.plot(failed["sharpe"], np.full(len(failed), row), "x", ms=6, color=BAD, mew=1.6)
        axes.plot([mean, mean], [row - 0.3, row + 0.3], "-", color=INK, lw=2)
    axes.axvline(0.0, color=MUTED, lw=0.8)
    if holding is not None:
        axes.axvline(holding, color=GOOD, lw=1.2, ls="--")
    axes.set_yticks(range(len(order)), list(order.index), fontsize=8)
    axes.set_ylim(len(order) - 0.4, -0.6)
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, FLOOR - 0.3), high)
    axes.set_xlabel("judge Sharpe, annualised" + ("; dashed: buy and hold" if holding is not None else ""))


def equity(axes: Axes, curves: pd.DataFrame, holding: pd.Series | None, untrained: pd.Series | None = None) -> None:
    """Growth of 1 over a judge span. `curves`: timestamp x run; thin: runs (beyond 48 a band), thick: median."""
    growth = _thin((1.0 + curves).cumprod())
    stamps = growth.index.tz_convert(None).to_numpy()
    if growth.shape[1] <= MOST_LINES:
        axes.plot(stamps, growth.to_numpy(), "-", color=ACCENT, lw=0.6, alpha=0.4)
    else:
        low, high = growth.quantile(0.05, axis=1), growth.quantile(0.95, axis=1)
        axes.fill_between(stamps, low, high, color=ACCENT, alpha=0.2, lw=0)
    axes.plot(stamps, growth.median(axis=1), "-", color=ACCENT, lw=2, label="runs, median")
    if holding is not None:
        held = _thin((1.0 + holding).cumprod().to_frame()).iloc[:, 0]
        axes.plot(held.index.tz_convert(None).to_numpy(), held, "--", color=GOOD, lw=1.5, label="buy and hold")
    if untrained is not None:
        before = _thin((1.0 + untrained).cumprod().to_frame()).iloc[:, 0]
        axes.plot(before.index.tz_convert(None).to_numpy(), before, ":", color=INK, lw=1.2, label="untrained")
    axes.axhline(1.0, color=MUTED, lw=0.8)
    axes.legend(loc="best", fontsize=8)
    axes.set_ylabel("growth of 1")


def drawdown(axes: Axes, series: Mapping[str, pd.Series]) -> None:
    """Fall of equity from its highest value so far, start included. `series`: name -> returns by timestamp; the first
    is filled."""
    styles = (("-", ACCENT), ("--", GOOD), (":", INK))
    for (name, returns), (style, colour) in zip(series.items(), styles, strict=False):
        fall = _thin(fall_from_peak(returns).to_frame()).iloc[:, 0]
        stamps = fall.index.tz_convert(None).to_numpy()
        axes.plot(stamps, 100.0 * fall, style, color=colour, lw=1.3, label=name)
        if name == next(iter(series)):
            axes.fill_between(stamps, 100.0 * fall, 0.0, color=colour, alpha=0.2, lw=0)
    axes.legend(loc="best", fontsize=8)
    axes.set_ylabel("below the peak, %")


def fall_from_peak(returns: pd.Series) -> pd.Series:
    """Equity over its highest value so far, minus 1, at each bar."""
    equity = (1.0 + returns).cumprod()
    return equity / equity.cummax().clip(lower=1.0) - 1.0


def q_gap(axes: Axes, gaps: pd.DataFrame, floor: pd.Series | None, accepted: pd.Series | None) -> None:
    """Q-gap of the members of a trial (thin) and their median (thick); dashed: median floor that a snapshot must reach;
    marks at the top: epochs in which a snapshot was accepted, larger for more members.

    `gaps`: epoch x member; `floor`: by epoch; `accepted`: share of members by epoch.
    """
    shown = gaps.iloc[:, :MOST_LINES]
    axes.plot(shown.index, shown.to_numpy(), "-", color=ACCENT, lw=0.6, alpha=0.35)
    axes.plot(gaps.index, gaps.median(axis=1), "-", color=ACCENT, lw=2, label="median")
    top = max(float(np.nanmax(gaps.to_numpy())), 1e-9) * 1.12
    if floor is not None:
        axes.plot(floor.index, floor, "--", color=BAD, lw=1.2, label="floor")
    if accepted is not None and (accepted > 0.0).any():
        some = accepted[accepted > 0.0]
        axes.scatter(some.index, np.full(len(some), top), s=8.0 + 40.0 * some, marker="v", color=GOOD, lw=0)
        axes.plot([], [], "v", color=GOOD, label="snapshot accepted")
    axes.set_ylim(0.0, top * 1.06)
    axes.legend(loc="best", fontsize=8)
    _whole_epochs(axes)
    axes.set_ylabel("train volatilities")


def _thin(table: pd.DataFrame) -> pd.DataFrame:
    if len(table) <= MOST_POINTS:
        return table
    return table.iloc[np.unique(np.linspace(0, len(table) - 1, MOST_POINTS).round().astype(int))]


def health_curve(axes: Axes, curve: pd.DataFrame, label: str) -> None:
    """`curve`: epoch -> low, median, high over the base members."""
    axes.fill_between(curve.index, curve["low"], curve["high"], color=ACCENT, alpha=0.2, lw=0)
    axes.plot(curve.index, curve["median"], "-", color=ACCENT, lw=2)
    _whole_epochs(axes)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=min(0.0, float(curve["low"].min())))
