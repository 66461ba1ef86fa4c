"""Has the base agent learned anything? It must beat random trading of equal turnover on the judge span.

Random trading here is the agent's own exposure, moved in time: each judge series is shifted round by a random number of
bars, so that turnover, holding times and the share of each position stay what they are, and only the timing is lost.
It pays the same costs. A verdict about an auxiliary loss of an agent that times no better than this means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.baselines import buy_and_hold
from analysis.interval import mean_interval
from analysis.load import Experiment
from analysis.text import signed, signed_interval
from trainer.record import read_epochs

Array = NDArray[np.float64]
SERIES = ("returns/judge", "exposure/judge")
SHIFTS, SEED = 200, 0  # of each run
FEWEST = 3  # configurations

State = Literal["learned", "not learned", "open", "not tested"]


@dataclass(frozen=True)
class Gate:
    """`estimate`, `low`, `high`: mean over `n` configurations of the base runs' Sharpe minus that of random trading
    with their turnover, annualised; learned when `low` is above 0, not learned when `high` is below, else open."""

    state: State
    n: int
    estimate: float
    low: float
    high: float
    reason: str


def gate(differences: NDArray[np.float64], alpha: float, missing: str = "") -> Gate:
    """From the difference of each configuration [n]. `missing`: why there are none."""
    nan = float("nan")
    if missing or len(differences) < FEWEST:
        return Gate("not tested", len(differences), nan, nan, nan, missing or f"fewer than {FEWEST} configurations")
    low, mean, high = mean_interval(differences, alpha)
    state: State = "learned" if low > 0.0 else "not learned" if high < 0.0 else "open"
    found = f"Sharpe {signed(mean)} {signed_interval(low, high)} against random trading of equal turnover"
    return Gate(state, len(differences), mean, low, high, f"{found}, {len(differences)} configurations")


def gate_of(experiment: Experiment, alpha: float) -> Gate:
    """The gate of an experiment, from the last epoch of its base runs and the bars themselves."""
    holding = buy_and_hold(experiment)
    if holding.missing:
        return gate(np.empty(0), alpha, holding.missing)
    market = {fold: series.to_numpy(float) for fold, series in holding.returns.items()}
    rows = [
        (run.config, run.seed, *_against_random(run.rows, market, experiment.periods_per_year))
        for run in last_base_runs(experiment, set(market))
    ]
    table = pd.DataFrame(rows, columns=["config", "seed", "own", "random"])
    differences = (table["own"] - table["random"]).groupby(table["config"], sort=False).mean()
    return gate(differences.to_numpy(float), alpha)


@dataclass(frozen=True)
class Run:
    """The last judged epoch of one base run, a row a fold: returns, exposure, cost a bar."""

    config: str
    seed: int
    rows: dict[int, tuple[Array, Array, float]]


def last_base_runs(experiment: Experiment, folds: set[int]) -> Iterator[Run]:
    """Base runs with every fold of `folds` judged in the last epoch of their trial."""
    for spec in experiment.specs:
        if not (experiment.epochs["trial"] == spec.key).any():
            continue
        frame, _ = read_epochs(experiment.path, spec.key, _wanted)
        if "exposure/judge" not in frame:
            continue
        base = frame[(frame["arm"] == "base") & (frame["epoch"] == spec.trainer.epochs)]
        costs = spec.trainer.market
        rate = 1e-4 * (costs.commission_bps + costs.half_spread_bps + costs.slippage_bps)
        for seed, rows in base.groupby("seed"):
            found = {int(row["fold"]): _series(row, rate) for _, row in rows.iterrows() if row["status"] == "ok"}
            if set(found) == folds:
                yield Run(spec.config_key, int(seed), found)


def _wanted(column: str) -> bool:
    return column in ("trial", "arm", "seed", "fold", "epoch", "status", "eval/judge/turnover", *SERIES)


def _series(row: pd.Series, rate: float) -> tuple[Array, Array, float]:
    returns, exposure = (np.asarray(row[name], dtype=float) for name in SERIES)
    return returns, exposure, rate * float(row["eval/judge/turnover"]) / max(len(returns), 1)


def _against_random(
    rows: dict[int, tuple[Array, Array, float]], market: dict[int, Array], periods: float
) -> tuple[float, float]:
    """Annualised Sharpe of a run over its folds, and of random trading with its exposure."""
    own = np.concatenate([rows[fold][0] for fold in sorted(rows)])
    deviation = own.std(ddof=1)
    value = float(own.mean() / deviation) if deviation > 0.0 else 0.0
    pieces = [(rows[fold][1], market[fold], rows[fold][2]) for fold in sorted(rows)]
    return np.sqrt(periods) * value, np.sqrt(periods) * random_sharpe(pieces)


def random_sharpe(pieces: Sequence[tuple[Array, Array, float]]) -> float:
    """Mean Sharpe per bar over `SHIFTS` random shifts. A piece is one span: exposure held through each bar [bars],
    simple return of the market [bars], cost a bar. With several symbols both are means over them."""
    rng, values = np.random.default_rng(SEED), []
    for _ in range(SHIFTS):
        moved = [np.roll(held, rng.integers(1, max(len(held), 2))) * market - cost for held, market, cost in pieces]
        series = np.concatenate(moved)
        deviation = series.std(ddof=1)
        values.append(series.mean() / deviation if deviation > 0.0 else 0.0)
    return float(np.mean(values))
