"""Gems: candidate auxiliary losses. One file per gem; `contract.py` says what a gem is, `registry.py` finds them.

Public names load on first use, so that looking up installed gems does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.gems.contract import Gem, GemContext, GemError, Measure

__all__ = ["Gem", "GemContext", "GemError", "Measure"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'trainer.gems' has no attribute {name!r}")
    return getattr(import_module("trainer.gems.contract"), name)
