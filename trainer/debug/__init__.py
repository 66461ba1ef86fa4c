"""One trial again, in this process and without Ray: compared bit for bit, stopped, traced, walked beside another."""

from trainer.debug.check import DebugReporter, ReplayResult, check, stored_spec

__all__ = ["DebugReporter", "ReplayResult", "check", "stored_spec"]
