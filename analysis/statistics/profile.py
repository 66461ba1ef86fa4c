"""Performance profile: the share of runs above each score, which shows tails that a mean hides."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.statistics.arrays import vector
from analysis.statistics.bootstrap import bootstrap

DRAWS = 2_000


def performance_profile(
    values: ArrayLike,
    thresholds: ArrayLike,
    strata: ArrayLike | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> pd.DataFrame:
    """P(score > threshold) of one arm: columns share, low, high (pointwise, stratified bootstrap), index threshold.

    Agarwal et al. (2021). Plot two arms together: where the lower ends separate is where seeds fail.
    """
    scores, levels = vector(values, "values"), vector(thresholds, "thresholds")
    rows = [
        bootstrap(
            lambda v, limit=limit: (v > limit).mean(axis=-1), scores, strata=strata, draws=draws, seed=seed, level=level
        )
        for limit in levels
    ]
    table = [(row.value, row.low, row.high) for row in rows]
    return pd.DataFrame(table, columns=["share", "low", "high"], index=pd.Index(np.asarray(levels), name="threshold"))
