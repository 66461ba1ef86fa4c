"""How far Sharpe ratios spread: over seeds, over folds, over configurations, and against what sampling alone gives."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frames import FINISHED
from analysis.load import Experiment
from analysis.statistics.variance import component_interval, layout, variance_interval
from analysis.text import ABSENT, plain, signed_interval
from trainer.sharpe import FLOOR

SPREAD = ["n", "mean", "variance", "variance_lo", "variance_hi", "sd", "lo", "hi", "hac_se", "failed"]


def configuration_spread(scores: pd.DataFrame) -> pd.DataFrame:
    """Spread of the base runs' scores over the seeds of each configuration, in launch order, index `config`.

    n (scored seeds), mean, variance and sd (ddof 1; NaN for one seed), variance_lo and variance_hi (95 % chi-square
    interval, normal values), lo, hi, hac_se (mean over the seeds that have one: the sampling error of one run on these
    bars, most of which all seeds share), failed (runs at the floor; they count). Units: annualised Sharpe, variance
    squared.
    """
    base = scores[scores["arm"] == "base"]
    rows = {config: _spread(runs) for config, runs in base.groupby("config", sort=False)}
    return pd.DataFrame.from_dict(rows, orient="index", columns=SPREAD).rename_axis("config")


def _spread(runs: pd.DataFrame) -> list[float]:
    values = runs["sharpe"].dropna()
    variance = float(values.var(ddof=1)) if len(values) > 1 else np.nan
    return [
        len(values),
        values.mean(),
        variance,
        *variance_interval(variance, len(values) - 1),
        np.sqrt(variance),
        values.min(),
        values.max(),
        runs["sharpe_se"].mean(),
        int(runs["failed"].sum()),
    ]


@dataclass(frozen=True)
class Variance:
    """One source of variance of annualised Sharpe ratios; `floored` of the values stand at the floor.

    `interval` is the 95 % chi-square interval (Williams' for the net variance), which assumes normal values. `df` are
    its degrees of freedom: those of all runs together are no whole number, for seeds of one configuration count for
    less the more configurations differ. `lo` and `hi` are the extremes of the values, or of their deviations where
    `centred`.
    """

    source: str
    n: int
    df: float
    mean: float
    variance: float
    interval: tuple[float, float]
    lo: float
    hi: float
    centred: bool
    floored: int

    @property
    def title(self) -> str:
        """The source, with the number of failures that stand at the floor in it."""
        return f"{self.source} ({self.floored} at the floor)" if self.floored else self.source


def variance_sources(experiment: Experiment) -> list[Variance]:
    """Base runs: all together; seeds within a configuration; configurations; folds within a run.

    The means of configurations over their seeds carry the noise of those seeds; `net` is their variance less the
    seeds' share, and at least 0 (the method of moments of a one-way layout).
    """
    scores = experiment.scores[experiment.scores["arm"] == "base"].dropna(subset=["sharpe"])
    members = experiment.members[experiment.members["arm"] == "base"].dropna(subset=["judge_sharpe"])
    members = members[members["trial_status"].isin(FINISHED)]
    means = scores.groupby("config")["sharpe"].mean()
    seeds = _within("seeds within a configuration", scores, ["config"], "sharpe")
    between = _variance("means of configurations, seed noise included", means)
    return [
        _variance("all runs", scores["sharpe"], _shared_df(scores, "sharpe")),
        seeds,
        between,
        _net(between, seeds, scores.groupby("config").size()),
        _within("folds within a run", members, ["config", "seed"], "judge_sharpe"),
    ]


def _variance(source: str, values: pd.Series, df: float | None = None) -> Variance:
    df = max(len(values) - 1, 0) if df is None else df
    variance = float(values.var(ddof=1)) if df else float("nan")
    return Variance(
        source, len(values), df, float(values.mean()), variance, variance_interval(variance, df),
        float(values.min()), float(values.max()), False, _floored(values),
    )  # fmt: skip


def _shared_df(runs: pd.DataFrame, column: str) -> float:
    """Degrees of freedom of the variance of all runs, several of one configuration not being independent."""
    return layout(runs[column], runs["config"]).df if len(runs) > 1 else 0.0


def _net(between: Variance, seeds: Variance, counts: pd.Series) -> Variance:
    """What configurations differ by beyond their seeds; NaN where a variance is not known."""
    size = float(1.0 / (1.0 / counts).mean())
    variance, nan = max(between.variance - seeds.variance / size, 0.0), float("nan")
    interval = component_interval(between.variance, int(between.df), seeds.variance, int(seeds.df), size)
    df = between.df if np.isfinite(variance) else 0
    return Variance(
        "configurations, net of seed noise", between.n, df, between.mean, variance, interval, nan, nan, False, 0
    )


def _within(source: str, frame: pd.DataFrame, keys: list[str], column: str) -> Variance:
    """Pooled variance of the deviations from the group means."""
    groups: Sequence[tuple[Hashable, pd.Series]] = list(frame.groupby(keys)[column])
    deviations = pd.concat([values - values.mean() for _, values in groups]) if groups else frame[column]
    df = len(deviations) - len(groups)
    variance = float((deviations**2).sum() / df) if df > 0 else float("nan")
    return Variance(
        source, len(deviations), df, float(frame[column].mean()), variance, variance_interval(variance, df),
        float(deviations.min()), float(deviations.max()), True, _floored(frame[column]),
    )  # fmt: skip


def _floored(values: pd.Series) -> int:
    return int(values.eq(FLOOR).sum())


@dataclass(frozen=True)
class BestEpochs:
    """Best-epoch validation Sharpe of the base runs (mean over folds): selected by looking, never judged.

    `variance` has ddof 1 and `interval` is its 95 % chi-square interval (normal values; `df` as in `Variance`); lo and
    hi are the extremes of the Sharpe ratios.
    """

    runs: int
    mean: float
    variance: float
    interval: tuple[float, float]
    df: float
    lo: float
    hi: float

    @property
    def text(self) -> str:
        """The line of the older trainer, with the interval that it lacked."""
        interval = f"[{plain(self.interval[0], 3)}, {plain(self.interval[1], 3)}]" if self.df >= 1.0 else ABSENT
        return (
            f"best Sharpe variance {plain(self.variance, 3)} (95 % {interval}), Sharpe in "
            f"{signed_interval(self.lo, self.hi)}, over {self.runs} runs"
        )


def best_epochs(experiment: Experiment) -> BestEpochs:
    """What the older trainer printed as "best Sharpe variance [lo, hi]"; NaN without a complete run."""
    scores = experiment.scores
    runs = scores[scores["arm"] == "base"].dropna(subset=["best_validation"])
    values, df = runs["best_validation"], _shared_df(runs, "best_validation")
    variance = float(values.var(ddof=1))
    return BestEpochs(
        len(values), values.mean(), variance, variance_interval(variance, df), df, values.min(), values.max()
    )


@dataclass(frozen=True)
class Learned:
    """Share of base members that beat their own untrained network on the train span. `members` counts those with both
    evaluations or frozen; a frozen one has not learned."""

    members: int
    sharpe: float
    log_wealth: float


def learned(experiment: Experiment) -> Learned:
    """Is the run real? Compares the last epoch with epoch 0, member by member."""
    base = experiment.members[experiment.members["arm"] == "base"]
    frozen = base["status"].eq("frozen")
    base = base[frozen | base[["train_sharpe", "train_sharpe_untrained"]].notna().all(axis=1)]
    alive = base["status"].ne("frozen")
    if base.empty:
        return Learned(0, float("nan"), float("nan"))
    by_sharpe = (base["train_sharpe"] > base["train_sharpe_untrained"]) & alive
    by_wealth = (base["train_log_wealth"] > base["train_log_wealth_untrained"]) & alive
    return Learned(len(base), float(by_sharpe.mean()), float(by_wealth.mean()))
