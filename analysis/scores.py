"""The score of a run: annualised Sharpe of its judge returns, folds concatenated, averaged over the last epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import FINISHED
from trainer.sharpe import FLOOR, SharpeEstimate, sharpe

RUN = ["config", "arm", "seed"]
WORST_FIRST = ("frozen", "bankrupt", "short", "implausible", "flat", "no_trades", "ok")
COLUMNS = [
    *RUN, "trial", "launch", "sharpe", "sharpe_se", "status", "failed", "bars", "epochs", "folds", "untrained",
    "best_validation",
]  # fmt: skip


def score_runs(
    members: pd.DataFrame, epochs: pd.DataFrame, judge: pd.DataFrame, periods_per_year: float
) -> pd.DataFrame:
    """One row per run = (config, arm, seed), all its folds together.

    `members` names the folds a run must have, `epochs` holds the recorded rows, `judge` the series of the judge span
    (same index as `epochs`). Columns beside the keys: trial and launch (of its first trial), sharpe and sharpe_se
    (annualised, mean over the last `score_epochs` epochs' parameters; the error over those with an estimate, NaN where
    every value is a convention such as the floor), status (the worst over those epochs and folds),
    failed (it scores the floor for a failure of its own), bars, epochs (how many went in), folds, untrained (the same
    Sharpe of epoch 0), best_validation (mean over folds of the best epoch's validation Sharpe: selected, not judged).
    A run without a judged epoch has NaN and the status of its trial.
    """
    rows_of = dict(iter(epochs.groupby(RUN, sort=False))) if len(epochs) else {}
    rows = []
    for key, own in members.groupby(RUN, sort=False):
        recorded = rows_of.get(key)
        row = dict(zip(RUN, key, strict=True)) | {"trial": own["trial"].iloc[0], "launch": int(own["launch"].min())}
        row |= _score(own, recorded, judge, periods_per_year)
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def _score(own: pd.DataFrame, recorded: pd.DataFrame | None, judge: pd.DataFrame, periods: float) -> dict[str, Any]:
    folds = sorted(own["fold"])
    result: dict[str, Any] = {
        "sharpe": np.nan, "sharpe_se": np.nan, "status": "unscored", "failed": False, "bars": 0, "epochs": 0,
        "folds": len(folds), "untrained": np.nan, "best_validation": np.nan,
    }  # fmt: skip
    final = bool(own["trial_status"].isin(FINISHED).all())
    if (own["status"] == "frozen").any():
        result |= {"sharpe": FLOOR, "status": "frozen", "failed": True}
        final = False
    if recorded is None:
        return result
    if first := _pooled(recorded[recorded["epoch"] == 0], judge, folds, periods):
        result["untrained"] = first.value
    if final:
        best = recorded.groupby("fold")["eval/validation/sharpe"].max()
        result["best_validation"] = float(best.mean()) if len(best) == len(folds) else np.nan
        result |= _average(recorded, judge, folds, periods)
    return result


def _average(recorded: pd.DataFrame, judge: pd.DataFrame, folds: Sequence[int], periods: float) -> dict[str, Any]:
    late = recorded[recorded["scored"]]
    pooled = [_pooled(rows, judge, folds, periods) for _, rows in late.groupby("epoch")]
    estimates = [estimate for estimate in pooled if estimate is not None]
    if not estimates:
        return {}
    errors = [estimate.se for estimate in estimates if estimate.estimated]
    status = min((estimate.status for estimate in estimates), key=WORST_FIRST.index)
    return {
        "sharpe": float(np.mean([estimate.value for estimate in estimates])),
        # Errors of neighbouring epochs' parameters on the same bars are nearly equal, so their mean is not divided.
        "sharpe_se": float(np.mean(errors)) if errors else np.nan,
        "status": status,
        "failed": status == "bankrupt",
        "bars": max(estimate.n for estimate in estimates),
        "epochs": len(estimates),
    }


def _pooled(rows: pd.DataFrame, judge: pd.DataFrame, folds: Sequence[int], periods: float) -> SharpeEstimate | None:
    """Sharpe of one epoch over all folds; None when a fold has no evaluated row (damaged, or not judged then)."""
    rows = rows.sort_values("fold")
    if list(rows["fold"]) != list(folds):
        return None
    series = list(judge.loc[rows.index, "returns"])
    if any(len(returns) == 0 for returns in series):
        return None
    returns = np.concatenate(series)
    # Not by exposure: long one symbol and short another pools to a net exposure of 0.
    traded = bool((rows["eval/judge/turnover"] > 0.0).any())
    bankrupt = bool((rows["eval/judge/status"] == "bankrupt").any())
    return sharpe(returns, periods_per_year=periods, traded=traded, bankrupt=bankrupt)
