"""The headline trial of a sweep: its Sharpe ratio against what the best of so many trials reaches by chance alone.

This judges "the best configuration", never a gem: a gem compares arms at equal configurations and selects nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics.arrays import Matrix, Vector, matrix
from analysis.statistics.effective_trials import EffectiveTrials, effective_trials, trial_correlation
from analysis.statistics.maximum import DRAWS, selection_threshold, simulated_maxima
from analysis.statistics.moments import moments
from analysis.statistics.probabilistic import probabilistic_sharpe
from analysis.text import plain, signed
from trainer.sharpe import hac_se, is_flat

COMMON = 1e-9  # 1 - mean correlation below this: the trials are copies, and nothing was selected


@dataclass(frozen=True)
class DeflatedSharpe:
    """A chosen trial, deflated. Sharpe ratios are annual; `value` (DSR) and `psr` are probabilities.

    `threshold` is SR0 with the trials' correlation, `independent` the one that as many independent trials would give.
    """

    chosen: int
    best: bool  # no trial has a larger Sharpe ratio
    bars: int
    sharpe: float
    se: float  # HAC
    trials: EffectiveTrials
    threshold: float
    independent: float
    value: float
    psr: float

    @property
    def text(self) -> str:
        """One line for a report."""
        how = "the best of" if self.best else "chosen from"
        trials = self.trials
        return (
            f"Sharpe {signed(self.sharpe)} ± {plain(self.se)} over {self.bars} bars, {how} {trials.n} trials (worth "
            f"{plain(trials.participation, 1)} by participation, {plain(trials.entropy, 1)} by entropy, "
            f"{plain(trials.linear, 1)} linear); luck alone gives {signed(self.threshold)}; "
            f"DSR {plain(self.value, 3)}, PSR {plain(self.psr, 3)}"
        )


def deflated_sharpe(
    returns: ArrayLike | list[ArrayLike],
    chosen: int | None = None,
    *,
    periods_per_year: float,
    draws: int = DRAWS,
    seed: int = 0,
) -> DeflatedSharpe:
    """Deflated Sharpe ratio of column `chosen` (None: the best) of the per-bar returns [T, N] of ALL trials tried.

    DSR = PSR against SR0, Bailey and Lopez de Prado (2014), J. Portf. Mgmt 40(5). Trials share the price path, so
    SR0 = sd x E[max of N(0, C)], drawn `draws` times with `seed`; C is the correlation of the trials and sd^2 the
    variance of their Sharpe ratios over 1 - mean correlation, because what all trials have in common does not show in
    that variance. Equally correlated trials thus give the same SR0 as independent ones. Trials that do not vary (no
    trades) have a Sharpe ratio of 0 and count as independent ones. Leaving losing trials out defeats the purpose.
    Raises ValueError for series of different lengths, and for a chosen trial that does not vary.
    """
    table = matrix(returns, "returns")
    ratios = _ratios(table)
    best = int(ratios.argmax())
    column = best if chosen is None else chosen
    if not 0 <= column < table.shape[1]:
        raise ValueError(f"chosen: {chosen!r} is no column of {table.shape[1]} trials")
    series, correlation, scale = table[:, column], trial_correlation(table), float(np.sqrt(periods_per_year))
    variance = float(ratios.var(ddof=1)) if len(ratios) > 1 else 0.0
    trials, found = effective_trials(correlation), moments(series)
    threshold = _threshold(variance, correlation, trials.mean_correlation, draws, seed)
    return DeflatedSharpe(
        column, bool(ratios[column] >= ratios[best]), found.n, found.sharpe * scale, hac_se(series) * scale, trials,
        threshold * scale, selection_threshold(variance, trials.n) * scale,
        probabilistic_sharpe(found, threshold), probabilistic_sharpe(found),
    )  # fmt: skip


def _ratios(table: Matrix) -> Vector:
    return np.array([0.0 if is_flat(column) else column.mean() / column.std(ddof=1) for column in table.T])


def _threshold(variance: float, correlation: Matrix, common: float, draws: int, seed: int) -> float:
    if variance == 0.0 or 1.0 - common < COMMON:
        return 0.0
    return float(np.sqrt(variance / (1.0 - common)) * simulated_maxima(correlation, draws=draws, seed=seed).mean())
