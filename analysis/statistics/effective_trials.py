"""How many independent trials a set of correlated ones is worth; trials on one price path are far from independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics.arrays import Matrix, matrix
from trainer.sharpe import is_flat


@dataclass(frozen=True)
class EffectiveTrials:
    """Three effective numbers of `n` trials, for reading. None of them gives the expected maximum, which is simulated.

    linear: rho + (1 - rho) n with the mean correlation rho, at most n. participation: (sum l)^2 / sum l^2 of the
    eigenvalues l. entropy: exp(-sum p log p) with p = l / sum l.
    """

    n: int
    mean_correlation: float
    linear: float
    participation: float
    entropy: float


def effective_trials(correlation: ArrayLike) -> EffectiveTrials:
    """Effective numbers from the correlation matrix [N, N] of the trials' returns."""
    given = matrix(correlation, "correlation")
    n = len(given)
    if given.shape != (n, n):
        raise ValueError(f"correlation: expected a square matrix, not shape {given.shape}")
    rho = float((given.sum() - np.trace(given)) / (n * (n - 1))) if n > 1 else 0.0
    share = np.clip(np.linalg.eigvalsh(given), 0.0, None)
    share = share / share.sum()
    positive = share[share > 0.0]
    entropy = float(np.exp(-(positive * np.log(positive)).sum()))
    return EffectiveTrials(n, rho, min(rho + (1.0 - rho) * n, float(n)), float(1.0 / (share**2).sum()), entropy)


def trial_correlation(returns: ArrayLike | list[ArrayLike]) -> Matrix:
    """Correlation [N, N] of the columns of `returns` [T, N]; a column that does not vary is correlated with none."""
    table = matrix(returns, "returns")
    moving = np.array([not is_flat(column) for column in table.T])
    result = np.eye(table.shape[1])
    if moving.sum() > 1:
        result[np.ix_(moving, moving)] = np.corrcoef(table[:, moving], rowvar=False)
    np.fill_diagonal(result, 1.0)
    return result
