"""The trainer: packed distributional DQN on market bars. It knows no Ray.

Public names load on first use, so that reading an experiment does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

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
