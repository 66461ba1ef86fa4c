"""The trainer: packed distributional DQN on market bars. It knows no Ray.

Public names load on first use, so that reading an experiment does not load torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

# The same bits in a pack of any size: on CPUs without AVX-512, MKL otherwise picks its path by where an array lies in
# memory. It reads this on its first call; where somebody has chosen a mode already, that one stays.
os.environ.setdefault("MKL_CBWR", "AUTO")

_PLACES = {
    "run_trial": "trainer.loop",
    "load_bars": "trainer.data",
    "TrialSpec": "trainer.config",
    "MemoryReporter": "trainer.reporter",
    "StoreReporter": "trainer.reporter",
    "TrialStore": "trainer.record",
    "sharpe": "trainer.sharpe",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'trainer' has no attribute {name!r}")
    module = import_module(_PLACES[name])
    return getattr(module, name)
