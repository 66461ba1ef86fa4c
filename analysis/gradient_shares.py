"""Which component of the loss trains which part of the network: shares of the norms that are applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.frames import MEMBER
from analysis.load import Experiment

APPLIED = ("iqn", "ens", "distill", "rec", "cql_sx", "c51_bs")  # each with its weight in its norm
SLICES = ("trunk", "direction", "magnitude")
LATE = 5  # last epochs of a member
PREDICTIVE = "g12_predictive"  # the gem whose component is called pred


@dataclass(frozen=True)
class Share:
    """Norm of `component` over the sum of the norms of all that is applied on `slice`: median and quartiles over
    `members`. Gradients are vectors, so norms that are summed exceed the norm of the sum."""

    slice: str
    component: str
    median: float
    low: float
    high: float
    members: int


def gradient_shares(experiment: Experiment) -> Iterator[Share]:
    """Shares on trunk and branches, each member at the median of its last epochs. A gem counts where it is wired.
    Components that never reach a slice or are off throughout are left out."""
    epochs = experiment.epochs
    if not {"arm", "epoch", "status"} <= set(epochs.columns):
        return
    rows = epochs[(epochs["arm"] == "base") & (epochs["status"] == "ok") & (epochs["epoch"] > 0)]
    rows = rows[rows["epoch"] > rows.groupby("trial")["epoch"].transform("max") - LATE]
    for part in SLICES:
        norms = _norms(rows, part)
        total = norms.sum(axis=1)
        shares = norms[total > 0.0].div(total[total > 0.0], axis=0)
        for component in shares.columns[shares.gt(0.0).any()]:
            low, median, high = shares[component].quantile([0.25, 0.5, 0.75])
            yield Share(part, component, float(median), float(low), float(high), len(shares))


def _norms(rows: pd.DataFrame, part: str) -> pd.DataFrame:
    """Norm applied on a slice by component, a row a member."""
    columns = {name: rows[f"grad/{name}/{part}"] for name in APPLIED if f"grad/{name}/{part}" in rows}
    for name in (column.split("/")[1] for column in rows.columns if column.startswith("coefficient/")):
        if name != "pred" and not name.startswith("gem:"):
            continue
        gem = PREDICTIVE if name == "pred" else name.removeprefix("gem:")
        wired = rows[f"gem/{gem}/mode"].eq("wired") if f"gem/{gem}/mode" in rows else pd.Series(False, rows.index)
        if wired.any() and f"grad/{name}/{part}" in rows:
            norm = rows[f"grad/{name}/{part}"] * rows[f"coefficient/{name}"].abs()
            columns[name] = norm.where(wired, 0.0)
    table = pd.DataFrame(columns, dtype=np.float64).fillna(0.0)
    return table.groupby([rows[name] for name in MEMBER], sort=False).median()
