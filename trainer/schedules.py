"""Schedules: coefficients that change with the number of updates, computed on the device and written to their slots.

All are linear and then constant. A captured step replays these functions, so nothing is written from the host.
"""

from __future__ import annotations

import numba_kernels as nk
from trainer.signals import COUNTERS, Counters, Signals

# Slot written -> (start, end, updates it takes).
LINEAR = {
    "epsilon": ("epsilon_start", "epsilon_end", "epsilon_decay_updates"),
    "priority_beta": ("priority_beta_start", "priority_beta_end", "priority_beta_updates"),
    "cql_coefficient": ("cql_weight", "cql_weight_end", "cql_anneal_updates"),
}


# Slot written -> (updates it stays 0, updates it then takes to 1). The IQN head learns from the first update: it opens
# the trunk once it has something to say.
RAMPS = {"iqn_readiness": ("iqn_warmup_updates", "iqn_ramp_updates")}
LINEAR_SLOTS = tuple(name for slot, names in LINEAR.items() for name in (*names, slot))
RAMP_SLOTS = tuple(name for slot, names in RAMPS.items() for name in (*names, slot))


def write_schedules(signals: Signals, counters: Counters) -> None:
    """Bring all scheduled slots to the present number of updates."""
    linear, ramps = signals.places(LINEAR_SLOTS).view(-1, 4), signals.places(RAMP_SLOTS).view(-1, 3)
    nk.anneal(signals.table, counters.table, COUNTERS.index("updates"), linear, ramps)
