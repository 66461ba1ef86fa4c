"""What the agent has to beat on the same judge spans: its own untrained network, doing nothing, and holding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.load import Experiment
from trainer.data import DataError, load_bars
from trainer.sharpe import SharpeEstimate, sharpe


@dataclass(frozen=True)
class Holding:
    """Buy and hold of every symbol in equal weights over the judge spans, rebalanced each bar, before costs.

    `returns`: one series a fold, indexed by the bar's UTC timestamp. `estimate` is over the folds concatenated.
    `missing` says why there is none.
    """

    estimate: SharpeEstimate | None
    returns: dict[int, pd.Series]
    missing: str = ""


def buy_and_hold(experiment: Experiment) -> Holding:
    """From the bars themselves, which are used only when their sha256 is the one that the plan recorded."""
    spans = experiment.spans[experiment.spans["span"] == "judge"].sort_values("fold")
    if experiment.timeline is None or spans.empty:
        return Holding(None, {}, "the experiment has no readable timeline or fold table")
    data = experiment.specs[0].data
    if any(spec.data != data for spec in experiment.specs):
        return Holding(None, {}, "the trials do not share one data set")
    try:
        bars = load_bars(
            data.source, symbols=data.symbols, adjust=data.adjust, on_bad=data.on_bad,
            on_duplicate=data.on_duplicate, max_gap_days=data.max_gap_days,
        )  # fmt: skip
    except (DataError, OSError) as error:
        return Holding(None, {}, f"the bars cannot be read again ({error})")
    if bars.sha256 != experiment.plan.get("data", {}).get("sha256"):
        return Holding(None, {}, "the bars found now are not those of the plan (sha256 differs)")
    returns = {}
    for row in spans.itertuples():
        stamps = experiment.timeline[int(row.start) + 1 : int(row.stop)]
        returns[int(row.fold)] = _pooled(bars.frames, stamps)
    series = np.concatenate(list(returns.values()))
    return Holding(sharpe(series, periods_per_year=experiment.periods_per_year), returns)


def _pooled(frames: dict[str, pd.DataFrame], stamps: pd.DatetimeIndex) -> pd.Series:
    """Equal-weight mean of simple close-to-close returns; the first bar is bought at its open, as the agent buys."""
    table = pd.DataFrame({name: frame["close"].pct_change() for name, frame in frames.items()}).reindex(stamps)
    first = {
        name: frame["close"].reindex(stamps[:1]) / frame["open"].reindex(stamps[:1]) - 1.0
        for name, frame in frames.items()
    }
    table.iloc[:1] = pd.DataFrame(first)
    return table.mean(axis=1).fillna(0.0)


@dataclass(frozen=True)
class Against:
    """The base runs against one baseline: its mean Sharpe, and the share of runs that score higher."""

    baseline: str
    sharpe: float
    beaten_by: float
    runs: int
    note: str = ""


def against_baselines(experiment: Experiment, holding: Holding) -> list[Against]:
    """Base runs against the untrained network of the same seed, a flat position (0) and buy and hold."""
    scores = experiment.scores[experiment.scores["arm"] == "base"].dropna(subset=["sharpe"])
    own, count = scores["sharpe"], len(scores)
    paired = scores.dropna(subset=["untrained"])
    rows = [
        Against(
            "own untrained network",
            _mean(paired["untrained"]),
            _mean(paired["sharpe"] > paired["untrained"]),
            len(paired),
        ),
        Against("flat (no position)", 0.0, _mean(own > 0.0), count),
    ]
    if holding.estimate is None:
        return [*rows, Against("buy and hold", float("nan"), float("nan"), count, holding.missing)]
    value = holding.estimate.value
    return [*rows, Against("buy and hold", value, _mean(own > value), count, "equal weights, before costs")]


def _mean(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else float("nan")
