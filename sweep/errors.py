"""Errors that end a command with one sentence and an exit code instead of a traceback."""

from __future__ import annotations

GOOD = 0
SOME_TRIALS_FAILED = 1
REFUSED = 2
INTERRUPTED = 3
CANNOT_RESUME = 4


class SweepError(Exception):
    """A condition that the user can mend; the text names what is wrong and the way out."""

    exit_code = REFUSED


class ConfigError(SweepError, ValueError):
    """The configuration, the data or the machine rules the sweep out; nothing was started."""


class ResumeError(SweepError):
    """The experiment on disk cannot be continued; nothing was changed."""

    exit_code = CANNOT_RESUME
