"""The headline trial: the configuration that a reader would pick, and the returns of all that it is picked from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.load import Experiment
from analysis.tables import ranked_trials

Returns = NDArray[np.float64]


@dataclass(frozen=True)
class Headline:
    """`trial` is the best by its objective, `config` its configuration. `returns` [bars, N]: judge returns per bar of
    every configuration that was tried, mean over base seeds, folds one after the other; `chosen`: the column of the
    headline; `lost`: configurations without a whole series, which count as no trades."""

    trial: str
    config: str
    returns: Returns
    chosen: int
    names: tuple[str, ...]
    lost: tuple[str, ...]


def headline(experiment: Experiment) -> Headline | None:
    """None until a finished configuration has a whole judge series.

    The choice is by validation alone; the judge bars say afterwards what it was worth. A configuration whose runs all
    failed stays in the table as one that earns nothing: leaving losers out would flatter the winner.
    """
    series = judge_series(experiment)
    ranked = ranked_trials(experiment)
    ranked = ranked[ranked["objective"].notna() & ranked["config"].isin(series)]
    if ranked.empty:
        return None
    best = ranked.iloc[0]
    tried = experiment.trials.loc[experiment.trials["objective"].notna(), "config"]
    names = tuple(dict.fromkeys(tried))
    bars = len(series[best["config"]])
    table = np.column_stack([series.get(name, np.zeros(bars)) for name in names])
    lost = tuple(name for name in names if name not in series)
    return Headline(str(best["trial"]), str(best["config"]), table, names.index(best["config"]), names, lost)


def judge_series(experiment: Experiment) -> dict[str, Returns]:
    """Judge returns of each configuration [bars]: base arm, last epoch, mean over the seeds with every fold."""
    return {config: table.mean(axis=1).to_numpy(float) for config, table in base_curves(experiment).items()}


def base_curves(experiment: Experiment, epoch: str = "last") -> dict[str, pd.DataFrame]:
    """Judge returns by configuration: timestamp x seed of the base arm, folds one after the other, of the seeds that
    have every fold. `epoch`: "last", or "first" for the untrained network."""
    rows, stamps = experiment.epochs, judge_stamps(experiment)
    if not len(rows) or not stamps:
        return {}
    wanted = rows["remaining"].eq(0) if epoch == "last" else rows["epoch"].eq(0)
    own = rows.loc[rows["arm"].eq("base") & wanted & rows["status"].eq("ok"), ["config", "seed", "fold"]]
    own = own.assign(returns=experiment.judge.loc[own.index, "returns"])
    found: dict[str, dict[int, Returns]] = {}
    for (config, seed), runs in own.groupby(["config", "seed"], sort=False):
        pieces = {int(row.fold): row.returns for row in runs.itertuples()}
        whole = all(len(pieces.get(fold, ())) == len(times) for fold, times in stamps.items())
        if whole:
            found.setdefault(str(config), {})[int(seed)] = np.concatenate([pieces[fold] for fold in stamps])
    index = pd.DatetimeIndex(np.concatenate([times.to_numpy() for times in stamps.values()]), tz="UTC")
    return {config: pd.DataFrame(seeds, index=index) for config, seeds in found.items()}


def judge_stamps(experiment: Experiment) -> dict[int, pd.DatetimeIndex]:
    """Close of every judged bar, by fold in order; empty when the timeline is lost."""
    if experiment.timeline is None:
        return {}
    spans = experiment.spans[experiment.spans["span"] == "judge"].sort_values("fold")
    return {int(row.fold): experiment.timeline[int(row.start) + 1 : int(row.stop)] for row in spans.itertuples()}
