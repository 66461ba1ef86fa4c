"""Two arms, or one, summarised as rliable does (Agarwal et al. 2021), with intervals over pairs.

These stand beside the verdict's interval and decide nothing. `control` and `treatment` go row by row (the same
configuration, seed and windows); `strata` holds the configuration of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from analysis.statistics.arrays import Vector, codes, matched, vector
from analysis.statistics.bootstrap import DRAWS, Interval, bootstrap

Scores = NDArray[np.float64]
ARMS = ("control", "treatment")


def iqm_interval(
    values: ArrayLike, strata: ArrayLike | None = None, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> Interval:
    """Interquartile mean (floor(n/4) values dropped at each end) of one arm."""
    return bootstrap(_iqm, vector(values, "values"), strata=strata, draws=draws, seed=seed, level=level)


def iqm_difference(
    control: ArrayLike,
    treatment: ArrayLike,
    strata: ArrayLike | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """IQM of `treatment` minus IQM of `control`; pairs are drawn, not arms."""
    pair = matched(control, treatment, ARMS)
    return bootstrap(lambda c, t: _iqm(t) - _iqm(c), *pair, strata=strata, draws=draws, seed=seed, level=level)


def win_rate(
    control: ArrayLike,
    treatment: ArrayLike,
    strata: ArrayLike | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Share of pairs in which `treatment` is larger, ties one half: improvement with the SAME seed."""
    pair = matched(control, treatment, ARMS)
    return bootstrap(_wins, *pair, strata=strata, draws=draws, seed=seed, level=level)


def probability_of_improvement(
    control: ArrayLike,
    treatment: ArrayLike,
    strata: ArrayLike | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """P(a run of `treatment` beats a run of `control` with ANY seed), ties one half, averaged over configurations.

    Mann-Whitney's U over the product of the sizes. `win_rate` uses the pairing and is sharper where seeds correlate.
    """
    one, two = matched(control, treatment, ARMS)
    groups = codes(strata, len(one))
    places = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    return bootstrap(
        lambda c, t: np.mean([_superiority(c[..., at], t[..., at]) for at in places], axis=0),
        one, two, strata=strata, draws=draws, seed=seed, level=level,
    )  # fmt: skip


def optimality_gap(
    values: ArrayLike,
    target: float,
    strata: ArrayLike | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Mean shortfall from `target`: target - mean(min(value, target)); what lies above earns nothing."""
    return bootstrap(
        lambda v: target - np.minimum(v, target).mean(axis=-1),
        vector(values, "values"), strata=strata, draws=draws, seed=seed, level=level,
    )  # fmt: skip


def _iqm(values: Scores) -> Any:
    count = values.shape[-1]
    cut = count // 4
    return np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)


def _wins(control: Scores, treatment: Scores) -> Any:
    return 0.5 * (1.0 + np.sign(treatment - control).mean(axis=-1))


def _superiority(control: Scores, treatment: Scores) -> Vector:
    count = treatment.shape[-1]
    ranks = rankdata(np.concatenate([control, treatment], axis=-1), axis=-1)[..., control.shape[-1] :]
    return (ranks.sum(axis=-1) - 0.5 * count * (count + 1)) / (count * control.shape[-1])
