"""Two or more experiments held against each other at equal n: Sharpe and its spread, gems, shares of the gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.differences import Differences, differences
from analysis.effect_between import Effect, effect_between
from analysis.evidence import unit_sizes
from analysis.gradient_shares import Share, gradient_shares
from analysis.interval import mean_interval
from analysis.judge import verdicts
from analysis.load import Experiment
from analysis.pairing import Evidence, Pairs, evidence, pair, restricted
from analysis.rules import VerdictRules, planned_rules
from analysis.signals import signals
from analysis.spread import BestEpochs, Variance, best_epochs, variance_sources

TAIL = 0.025  # of the 95 % intervals, on either side
NAN = float("nan")


@dataclass(frozen=True)
class Size:
    """Geometric mean over `n` configurations of a gem's size, share of |c51_bs|, with its 95 % t interval."""

    n: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class GemSide:
    """A gem in one experiment: the verdict on all its evidence (`looked`: configurations that it counts), and the size
    at equal n."""

    gem: str
    verdict: str
    looked: int
    reason: str
    size: Size


@dataclass(frozen=True)
class Side:
    """One experiment at equal n. mean, low, high: annualised judge Sharpe over `n` units with its 95 % t interval.
    floored: runs that failed and stand at the floor. variance: of all runs, and of seeds within a configuration."""

    tag: str
    name: str
    path: str
    label: str
    trials: dict[str, int]
    configurations: int
    seeds: int
    unit: str
    n: int
    mean: float
    low: float
    high: float
    floored: int
    variance: tuple[Variance, ...]
    best: BestEpochs
    gems: tuple[GemSide, ...]
    gradients: tuple[Share, ...]


@dataclass(frozen=True)
class Comparison:
    """`equal_n`: what the sides were cut to, in words. effects: every other side against the first."""

    differences: Differences
    comparable: bool
    equal_n: str
    sides: tuple[Side, ...]
    effects: tuple[Effect, ...]


def compare(experiments: Sequence[Experiment]) -> Comparison:
    """Compare every further experiment with the first. Raises ValueError for fewer than two."""
    if len(experiments) < 2:
        raise ValueError("compare: it takes two experiments or more")
    found = [evidence(experiment) for experiment in experiments]
    pairs = [pair(experiments[0], other) for other in experiments[1:]]
    chosen = _paired_choice(pairs)
    if not all(chosen[0]):
        chosen = _first_of_each(found)
    cut = [
        restricted(experiment, configs, seeds) for experiment, (configs, seeds) in zip(experiments, chosen, strict=True)
    ]
    effects = tuple(
        effect_between((_tag(0), experiments[0]), (_tag(place), experiments[place]), own, (cut[0], cut[place]))
        for place, own in enumerate((_within(each, chosen[0]) for each in pairs), start=1)
    )
    return Comparison(
        differences=differences(experiments),
        comparable=all(effect.comparable for effect in effects),
        equal_n=_equal_n(found, chosen),
        sides=tuple(_side(_tag(p), whole, part) for p, (whole, part) in enumerate(zip(experiments, cut, strict=True))),
        effects=effects,
    )


def _tag(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else str(place)


Choice = tuple[tuple[str, ...], tuple[int, ...]]  # configurations and seeds of one side


def _paired_choice(pairs: Sequence[Pairs]) -> list[Choice]:
    """What all pairs have in common, in the launch order of the first experiment; nothing when one has no pairs."""
    tables = [dict(each.configs) for each in pairs]
    first = tuple(a for a, _ in pairs[0].configs if all(a in table for table in tables))
    seeds = tuple(seed for seed in pairs[0].seeds if all(seed in each.seeds for each in pairs))
    return [(first, seeds), *((tuple(table[a] for a in first), seeds) for table in tables)]


def _within(pairs: Pairs, first: Choice) -> Pairs:
    """The pairs among what the first side was cut to, so that a difference is that of the means beside it; all of them
    where none is left."""
    configs = tuple((a, b) for a, b in pairs.configs if a in first[0])
    seeds = tuple(seed for seed in pairs.seeds if seed in first[1])
    return replace(pairs, configs=configs, seeds=seeds) if configs and seeds else pairs


def _first_of_each(found: Sequence[Evidence]) -> list[Choice]:
    """As many configurations and seeds of each as the smallest has, in launch order; a configuration that lost a seed
    is passed over."""
    usual = [Counter(len(seeds) for seeds in each.runs.values()).most_common(1) for each in found]
    count = min((most[0][0] for most in usual if most), default=0)
    sides = []
    for each in found:
        seeds = tuple(dict.fromkeys(seed for own in each.runs.values() for seed in own))[:count]
        sides.append(([name for name, own in each.runs.items() if set(seeds) <= set(own)], seeds))
    n = min(len(configs) for configs, _ in sides)
    return [(tuple(configs[:n]), seeds) for configs, seeds in sides]


def _equal_n(found: Sequence[Evidence], chosen: Sequence[Choice]) -> str:
    configs, seeds = chosen[0]
    there = " and ".join(str(len(each.runs)) for each in found)
    text = f"{counted(len(configs), 'configuration')} of {there}, {counted(len(seeds), 'seed')} each, in launch order"
    notes = [f"{_tag(place)}: {each.unfinished} not finished" for place, each in enumerate(found) if each.unfinished]
    notes += [f"{_tag(place)}: {len(each.lost)} without a score" for place, each in enumerate(found) if each.lost]
    return f"{text} ({'; '.join(notes)})" if notes else text


def counted(number: int, what: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _side(tag: str, whole: Experiment, part: Experiment) -> Side:
    scores = part.scores
    by_config = scores.groupby("config", sort=False)["sharpe"].mean()
    unit, values = ("configuration", by_config) if len(by_config) > 1 else ("seed", scores["sharpe"])
    low, mean, high = t_interval(values.to_numpy(float))
    every, seeds, *_ = variance_sources(part)
    return Side(
        tag=tag, name=whole.name, path=str(whole.path), label=whole.label,
        trials={str(status): int(count) for status, count in whole.trials["status"].value_counts().items()},
        configurations=len(by_config), seeds=scores["seed"].nunique(), unit=unit, n=len(values), mean=mean, low=low,
        high=high, floored=int(scores["failed"].sum()), variance=(every, seeds), best=best_epochs(part),
        gems=tuple(_gems(whole, part)), gradients=tuple(gradient_shares(part)),
    )  # fmt: skip


def t_interval(values: np.ndarray) -> tuple[float, float, float]:
    """(low, mean, high), 95 % by Student's t; NaN for what too few values do not give."""
    if len(values) > 1:
        return mean_interval(values, TAIL)
    return NAN, float(values.mean()) if len(values) else NAN, NAN


def gem_size(rows: pd.DataFrame, rules: VerdictRules) -> Size:
    """Size of a gem over the configurations in `rows`, as `analysis.signals.signals` gives them."""
    logs = unit_sizes(rows, rules)[0]["log10_size"].to_numpy(float) if len(rows) else np.empty(0)
    low, mean, high = (float(10.0**value) for value in t_interval(logs))
    return Size(len(logs), mean, low, high)


def _gems(whole: Experiment, part: Experiment) -> list[GemSide]:
    rules, kept = planned_rules(whole.plan), set(part.scores["config"])
    found = []
    for verdict in verdicts(whole):
        rows = signals(whole, verdict.gem)
        rows = rows[rows["config"].isin(kept) & rows["seed"].isin(part.scores["seed"])]
        found.append(GemSide(verdict.gem, verdict.title, verdict.n, verdict.reason, gem_size(rows, rules)))
    return found
