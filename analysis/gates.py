"""What can close a component's gradient on the trunk, as in the registry of the trainer."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Slots of which each must differ from 0, in the order in which they are named.
GATES = {
    "iqn": ("iqn_weight", "iqn_readiness"),
    "ens": ("ensemble_weight",),
    "distill": ("distill_alpha_max", "distill_armed", "distill_alpha"),
    "rec": ("reconstruction_weight",),
    "cql_sx": ("cql_coefficient",),
}


def closed_gates(epochs: pd.DataFrame, component: str) -> pd.Series:
    """The first gate of `component` that is closed at the end of each row's epoch; "" where none is."""
    found = pd.Series("", index=epochs.index, dtype=object)
    for slot in reversed(GATES.get(component, ())):
        if f"signal/{slot}" in epochs.columns:
            found = found.mask(np.equal(epochs[f"signal/{slot}"], 0.0), slot)
    return found
