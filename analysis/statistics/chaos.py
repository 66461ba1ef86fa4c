"""The chaos floor: how far two runs of one seed drift apart when their initial weights differ by one ulp.

Training amplifies the last bit, so a part of what looks like a spread over seeds is there within a seed too. A gem's
paired difference cannot spread less than this, and sharing seeds between arms cannot take it away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import f

from analysis.statistics.arrays import codes, matched, probability
from analysis.statistics.variance import layout, variance_interval
from analysis.text import percent, percent_interval, plain


@dataclass(frozen=True)
class ChaosFloor:
    """Standard deviations of a run's score with 95 % intervals (normal scores), NaN where there are too few pairs.

    `chaos`: between runs of one seed. `seeds`: between runs of different seeds of one configuration, chaos included.
    `share`: chaos variance over that of seeds. `identical` pairs did not drift apart at all.
    """

    pairs: int
    configurations: int
    identical: int
    chaos: float
    chaos_interval: tuple[float, float]
    seeds: float
    seeds_interval: tuple[float, float]
    share: float
    share_interval: tuple[float, float]

    @property
    def text(self) -> str:
        """One line for a report."""
        return (
            f"chaos alone: sd {_with(self.chaos, self.chaos_interval)}; over seeds: sd "
            f"{_with(self.seeds, self.seeds_interval)}; chaos is {percent(self.share)} "
            f"{percent_interval(*self.share_interval)} of that variance, from {self.pairs} pairs in "
            f"{self.configurations} configurations ({self.identical} identical)"
        )


def chaos_floor(scores: pd.DataFrame, *, arm: str = "noise", base: str = "base", score: str = "sharpe") -> ChaosFloor:
    """Chaos beside seeds from a frame with columns config, arm, seed and `score`, such as `Experiment.scores`.

    `arm` repeats `base` seed by seed with every initial weight moved by one ulp. Pairs without both scores are left
    out; failures count with the score they stand at. Raises ValueError when the arm is not there.
    """
    table = scores.pivot(index=["config", "seed"], columns="arm", values=score)
    for name in (base, arm):
        if name not in table.columns:
            raise ValueError(f"chaos_floor: no arm {name!r} in the scores; there are {sorted(map(str, table.columns))}")
    pairs = table[[base, arm]].dropna()
    if pairs.empty:
        raise ValueError(f"chaos_floor: no seed has a score in both {base!r} and {arm!r}")
    return chaos_of_pairs(pairs[base], pairs[arm], pairs.index.get_level_values("config"))


def chaos_of_pairs(base: ArrayLike, noise: ArrayLike, strata: ArrayLike, *, level: float = 0.95) -> ChaosFloor:
    """The chaos floor from the scores of both runs of each seed, `strata` being the configurations.

    A nested analysis of variance with two runs a seed: the mean square within seeds is the chaos; that between seeds
    of a configuration is chaos + 2 x seeds. The share's interval is the exact one of the intraclass correlation.
    """
    one, two = matched(base, noise, ("base", "noise"), 1)
    groups = codes(strata, len(one))
    pairs, configurations = len(one), int(groups.max()) + 1
    within = float(((one - two) ** 2).mean() / 2.0)
    df = pairs - configurations
    between = 2.0 * layout((one + two) / 2.0, groups).within / df if df else float("nan")
    total = 0.5 * (within + between)
    effective = (within + between) ** 2 / (within**2 / pairs + between**2 / df) if df and total else float("nan")
    return ChaosFloor(
        pairs, configurations, int((one == two).sum()),
        float(np.sqrt(within)), _roots(variance_interval(within, pairs, level)),
        float(np.sqrt(total)), _roots(variance_interval(total, effective, level)),
        min(within / total, 1.0) if total > 0.0 else float("nan"), _share_interval(within, between, pairs, df, level),
    )  # fmt: skip


def _share_interval(within: float, between: float, pairs: int, df: int, level: float) -> tuple[float, float]:
    """1 - intraclass correlation = 2 / (F + 1), F being the ratio of the mean squares, at the ends of its interval."""
    tail = 0.5 * (1.0 - probability(level, "level"))
    if df < 1 or within + between == 0.0:
        return float("nan"), float("nan")
    if within == 0.0:
        return 0.0, 0.0
    ratio = between / within
    ends = (ratio / f.ppf(tail, df, pairs), ratio / f.isf(tail, df, pairs))
    low, high = (min(2.0 / (end + 1.0), 1.0) for end in ends)
    return float(low), float(high)


def _roots(interval: tuple[float, float]) -> tuple[float, float]:
    return float(np.sqrt(interval[0])), float(np.sqrt(interval[1]))


def _with(value: float, interval: tuple[float, float]) -> str:
    return f"{plain(value, 3)} [{plain(interval[0], 3)}, {plain(interval[1], 3)}]"
