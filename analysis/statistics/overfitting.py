"""Probability of backtest overfitting: how often does the best trial of one half of the bars fall into the lower half
of the others?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from analysis.statistics.arrays import Matrix, matrix
from trainer.sharpe import FLAT

CHUNK = 1_000  # splits at a time, so that memory stays small with many trials
DIGITS = 12  # Sharpe ratios that agree to here are tied: the rest is rounding


@dataclass(frozen=True)
class Overfitting:
    """`value` (PBO) is a share of the `splits`; near 0 the choice carries over, near 0.5 it is luck.

    `mean_logit` is the mean log odds of the chosen trial's relative rank out of sample; 0 is the middle.
    """

    value: float
    mean_logit: float
    splits: int
    trials: int

    @property
    def text(self) -> str:
        """One line for a report."""
        return f"PBO {self.value:.2f} over {self.splits} splits of {self.trials} trials (0.5: choosing them is luck)"


def backtest_overfitting(returns: ArrayLike | list[ArrayLike], *, blocks: int = 16) -> Overfitting:
    """PBO by combinatorially symmetric cross-validation of per-bar returns [T, N], N >= 2 trials.

    Bailey, Borwein, Lopez de Prado and Zhu (2016), J. Comp. Finance. The bars are cut into an even number of `blocks`
    (equal to within a bar, no bar dropped); every half of them is once in sample. Relative rank = average rank / (N+1).
    A split counts 1 where the logit is below 0, one half where it is 0; trials tied for the best share the split
    equally, so the order of the columns does not matter. A trial that does not vary in a half scores 0 there.
    """
    table = matrix(returns, "returns")
    bars, trials = table.shape
    if trials < 2:
        raise ValueError("returns: overfitting needs at least 2 trials to choose from")
    if blocks < 2 or blocks % 2 or bars < 2 * blocks:
        raise ValueError(f"blocks must be even, at least 2 and at most half of the {bars} bars, not {blocks}")
    halves = np.array(list(combinations(range(blocks), blocks // 2)))
    rest = halves[::-1]  # combinations are in lexicographic order: the complement of the first is the last
    score, count = _scorer(table, blocks), len(halves)
    found = [
        _split(score(halves[start : start + CHUNK]), score(rest[start : start + CHUNK]))
        for start in range(0, count, CHUNK)
    ]
    lost, logit = np.sum(found, axis=0) / count
    return Overfitting(float(lost), float(logit), count, trials)


def _split(inside: Matrix, outside: Matrix) -> tuple[float, float]:
    """(lost splits, sum of the logits) of the best trials inside, by their average rank outside; both [splits, N]."""
    best = inside == inside.max(axis=1, keepdims=True)
    share = best / best.sum(axis=1, keepdims=True)
    rank = rankdata(outside, axis=1) / (outside.shape[1] + 1.0)
    logit = np.log(rank / (1.0 - rank))
    loses = np.where(rank == 0.5, 0.5, rank < 0.5)
    return float((share * loses).sum()), float((share * logit).sum())


def _scorer(table: Matrix, blocks: int) -> Callable[[NDArray[np.intp]], Matrix]:
    """Sharpe ratio (ddof 1) of every trial on every half, [halves, N], from the moments of the blocks."""
    parts = np.array_split(table, blocks)
    counts = np.array([len(part) for part in parts], dtype=np.float64)[:, None]
    means = np.array([part.mean(axis=0) for part in parts])
    squares = np.array([((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in parts])
    smallest = FLAT * np.abs(table).max(axis=0)

    def score(halves: NDArray[np.intp]) -> Matrix:
        size = counts[halves].sum(axis=1)
        mean = sum(counts[block] * means[block] for block in halves.T) / size
        variation = sum(squares[block] + counts[block] * (means[block] - mean) ** 2 for block in halves.T)
        deviation = np.sqrt(variation / (size - 1.0))
        still = deviation <= smallest
        return np.where(still, 0.0, np.round(mean / np.where(still, 1.0, deviation), DIGITS))

    return score
