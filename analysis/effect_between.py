"""The difference between two experiments: over pairs where there are pairs, else between independent configurations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind

from analysis.load import Experiment
from analysis.pairing import Pairs, incomparable, other_yardsticks
from analysis.rules import planned_rules
from analysis.statistics import (
    Interval,
    PairedBrownForsythe,
    PairedDifference,
    VarianceRatio,
    brown_forsythe,
    paired_difference,
    probability_of_improvement,
    variance_ratio,
    win_rate,
)

DIGEST = "purity/params_sha"
T = TypeVar("T")


@dataclass(frozen=True)
class Difference:
    """Second minus first, annualised judge Sharpe, with its 95 % interval and two-sided p at this one n."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Effect:
    """`second` against `first`. why: what keeps them from being paired, or from being compared at all; "" for pairs.

    changed: settings in which pairs differ. cautions: what else the reader of a difference must know. n: units of
    either side, configurations or, where there is one configuration, its seeds. first_look: configurations of the
    first look of the plan. pairs: runs; identical: those of equal score. same_parameters, of_parameters: members whose
    last common epoch has equal parameters, of those with a digest.
    """

    first: str
    second: str
    comparable: bool
    paired: bool
    why: str
    changed: tuple[str, ...]
    cautions: tuple[str, ...]
    unit: str = "configuration"
    first_look: int = 0
    n: tuple[int, int] = (0, 0)
    pairs: int = 0
    difference: Difference | None = None
    wins: Interval | None = None
    improvement: Interval | None = None
    spread: PairedBrownForsythe | None = None
    variance: VarianceRatio | None = None
    identical: int = 0
    same_parameters: int = 0
    of_parameters: int = 0


def effect_between(
    first: tuple[str, Experiment], second: tuple[str, Experiment], pairs: Pairs, cut: tuple[Experiment, Experiment]
) -> Effect:
    """`first`, `second`: tag and experiment; `pairs` as `pair` found them; `cut`: both at equal n, for the case without
    pairs."""
    reasons = incomparable(first[1], second[1])
    found = Effect(
        first[0], second[0], not reasons, not pairs.why, pairs.why, pairs.changed,
        tuple(_cautions(pairs)), first_look=planned_rules(first[1].plan).schedule[0],
    )  # fmt: skip
    if reasons:
        return found
    return _unpaired(found, *cut) if pairs.why else _paired(found, first[1], second[1], pairs)


def _cautions(pairs: Pairs) -> list[str]:
    changed = other_yardsticks(pairs.changed)
    return [f"the yardstick changed too: {', '.join(changed)}"] if changed else []


def _paired(found: Effect, one: Experiment, two: Experiment, pairs: Pairs) -> Effect:
    table = paired_scores(one, two, pairs)
    unit = "configuration" if table["config"].nunique() > 1 else "seed"
    units = table.groupby("config", sort=False)[["first", "second"]].mean() if unit == "configuration" else table
    control, treatment = table["first"].to_numpy(float), table["second"].to_numpy(float)
    strata = table["config"].to_numpy()
    same, of = _same_parameters(one, two, pairs)
    return replace(
        found, unit=unit, n=(len(units), len(units)), pairs=len(table),
        difference=_or_none(lambda: _told(paired_difference(units["first"], units["second"]))),
        wins=_or_none(lambda: win_rate(control, treatment, _strata(strata))),
        improvement=_or_none(lambda: probability_of_improvement(control, treatment, strata)),
        spread=_or_none(lambda: brown_forsythe(control, treatment, strata)),
        identical=int((control == treatment).sum()), same_parameters=same, of_parameters=of,
    )  # fmt: skip


def paired_scores(one: Experiment, two: Experiment, pairs: Pairs) -> pd.DataFrame:
    """config (of the first), seed, first, second: scores of the base runs, a row a pair, in launch order."""
    tables = [each.scores[each.scores["arm"] == "base"].set_index(["config", "seed"])["sharpe"] for each in (one, two)]
    rows = [(a, seed, tables[0][a, seed], tables[1][b, seed]) for a, b in pairs.configs for seed in pairs.seeds]
    return pd.DataFrame(rows, columns=["config", "seed", "first", "second"])


def _strata(configs: np.ndarray) -> np.ndarray | None:
    """Seeds are drawn within their configuration; where each has one, configurations are drawn."""
    return configs if len(configs) > len(set(configs)) else None


def _told(found: PairedDifference) -> Difference:
    return Difference(found.mean, *found.interval, found.p)


def _same_parameters(one: Experiment, two: Experiment, pairs: Pairs) -> tuple[int, int]:
    """Members whose parameters are equal bit for bit at the last epoch that both recorded."""
    names = {b: a for a, b in pairs.configs}
    tables = []
    for experiment, keys in ((one, dict(zip(names.values(), names.values(), strict=True))), (two, names)):
        rows = experiment.epochs
        if DIGEST not in rows:
            return 0, 0
        rows = rows[(rows["arm"] == "base") & rows["config"].isin(keys) & rows["seed"].isin(pairs.seeds)]
        tables.append(rows.assign(config=rows["config"].map(keys))[["config", "seed", "fold", "epoch", DIGEST]])
    both = tables[0].merge(tables[1], on=["config", "seed", "fold", "epoch"], suffixes=("_first", "_second"))
    last = both.sort_values("epoch").groupby(["config", "seed", "fold"]).tail(1)
    return int((last[f"{DIGEST}_first"] == last[f"{DIGEST}_second"]).sum()), len(last)


def _unpaired(found: Effect, one: Experiment, two: Experiment) -> Effect:
    """Welch's t interval between configuration means, and Bonett's of the ratio of their variances."""
    sides = [each.scores.groupby("config")["sharpe"].mean().to_numpy(float) for each in (one, two)]
    unit = "configuration"
    if min(len(side) for side in sides) == 1:
        unit, sides = "seed", [each.scores["sharpe"].to_numpy(float) for each in (one, two)]
    return replace(
        found, unit=unit, n=(len(sides[0]), len(sides[1])), difference=_welch(*sides),
        variance=_or_none(lambda: variance_ratio(*sides)),
    )  # fmt: skip


def _welch(first: np.ndarray, second: np.ndarray) -> Difference | None:
    if min(len(first), len(second)) < 2:
        return None
    result = ttest_ind(second, first, equal_var=False)
    interval = result.confidence_interval(0.95)
    value = float(second.mean() - first.mean())
    return Difference(value, float(interval.low), float(interval.high), float(result.pvalue))


def _or_none(compute: Callable[[], T]) -> T | None:
    """The statistic, or None where its own rules say that there are too few values for it."""
    try:
        return compute()
    except ValueError:
        return None
