"""How much of a difference hangs on this one path of prices? Blocks of time drawn again, the same for every pair.

All runs of a study see the same bars, so the interval of a verdict, which treats configurations as its sample, does not
hold the luck of the period. This interval does, and only that; it is printed beside a verdict and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.arms import arms_by_config, wired_gem
from analysis.load import Experiment

Array = NDArray[np.float64]
DRAWS, SEED, COVERAGE = 500, 0, 0.90


def path_interval(experiment: Experiment, gem: str, dose: float) -> tuple[float, float]:
    """90 % percentile interval of the mean difference in annualised Sharpe, wired at `dose` minus probed, over the last
    judged epoch of the pairs; NaN without a pair. Circular blocks of bars (Politis and Romano 1992)."""
    control, treatment = paired_returns(experiment, gem, dose)
    if not len(control):
        return float("nan"), float("nan")
    scale = float(np.sqrt(experiment.periods_per_year))
    low, high = block_interval(control, treatment)
    return scale * low, scale * high


def block_interval(control: Array, treatment: Array) -> tuple[float, float]:
    """Of the mean over pairs of the difference of Sharpe ratios per bar; `control`, `treatment` [pairs, bars]."""
    bars = control.shape[1]
    length = max(1, round(bars ** (1.0 / 3.0)))
    rng, found = np.random.default_rng(SEED), []
    for _ in range(DRAWS):
        starts = rng.integers(0, bars, -(-bars // length))
        drawn = ((starts[:, None] + np.arange(length)) % bars).ravel()[:bars]
        found.append(float((_ratio(treatment[:, drawn]) - _ratio(control[:, drawn])).mean()))
    tail = 0.5 * (1.0 - COVERAGE)
    low, high = np.quantile(found, [tail, 1.0 - tail])
    return float(low), float(high)


def _ratio(returns: Array) -> Array:
    deviation = returns.std(axis=1, ddof=1)
    return np.divide(returns.mean(axis=1), deviation, out=np.zeros(len(returns)), where=deviation > 0.0)


def paired_returns(experiment: Experiment, gem: str, dose: float) -> tuple[Array, Array]:
    """Judge returns of probed and wired runs [pairs, bars], folds one after the other, in the last scored epoch."""
    arms = _arms_that_wire(experiment, gem, dose)
    epochs = experiment.epochs
    if not arms or "scored" not in epochs:
        return np.empty((0, 0)), np.empty((0, 0))
    late = epochs[(epochs["remaining"] == 0) & (epochs["status"] == "ok")]
    series = late[["config", "arm", "seed", "fold"]].assign(returns=experiment.judge.loc[late.index, "returns"])
    runs = {key: rows.sort_values("fold") for key, rows in series.groupby(["config", "arm", "seed"])}
    pairs = [
        (_joined(runs[config, "base", seed]), _joined(rows))
        for (config, arm, seed), rows in runs.items()
        if arms.get(config) == arm and (config, "base", seed) in runs
    ]
    longest = max((len(base) for base, _ in pairs), default=0)
    whole = [(base, wired) for base, wired in pairs if len(base) == len(wired) == longest > 0]
    if not whole:
        return np.empty((0, 0)), np.empty((0, 0))
    control, treatment = (np.stack(side) for side in zip(*whole, strict=True))
    return control, treatment


def _joined(rows: pd.DataFrame) -> Array:
    return np.concatenate([np.asarray(series, dtype=float) for series in rows["returns"]])


def _arms_that_wire(experiment: Experiment, gem: str, dose: float) -> Mapping[str, str]:
    names = {row["reference"]: row["name"] for row in experiment.plan.get("gems", []) if "reference" in row}
    found = {}
    for config, arms in arms_by_config(experiment.specs).items():
        for arm in arms.values() if "base" in arms else ():
            wired = wired_gem(arms["base"], arm)
            if wired and (names.get(wired[0], wired[0]), wired[1]) == (gem, dose):
                found[config] = arm.name
    return found
