"""Gems: candidate auxiliary losses. One file per gem; `contract.py` says what a gem is, `registry.py` finds them."""

from trainer.gems.contract import Gem, GemContext, GemError, Measure

__all__ = ["Gem", "GemContext", "GemError", "Measure"]
