"""Live progress of a sweep: one calm block in a terminal, a line now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

LINE_SECONDS = 15.0  # at most one plain line in this time, besides those that report the end of a trial


@dataclass
class Tally:
    """What is known of the running sweep. Epochs are counted over all trials of the plan."""

    trials: int
    epochs: int
    done: int = 0
    epochs_before: int = 0  # recorded by an earlier launch of this sweep
    running: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)  # key -> error
    epoch_of: dict[str, int] = field(default_factory=dict)  # of the trials of this launch
    objective_of: dict[str, float] = field(default_factory=dict)  # the latest
    first_epoch_of: dict[str, int] = field(default_factory=dict)

    def result(self, key: str, epoch: int, objective: float) -> None:
        self.running.add(key)
        self.first_epoch_of.setdefault(key, max(epoch - 1, 0))
        self.epoch_of[key] = epoch
        self.objective_of[key] = objective

    @property
    def epochs_now(self) -> int:
        """Epochs that this launch added."""
        return sum(epoch - self.first_epoch_of[key] for key, epoch in self.epoch_of.items())

    @property
    def best(self) -> tuple[str, float] | None:
        """Key and value of the highest latest objective."""
        if not self.objective_of:
            return None
        key = max(self.objective_of, key=lambda k: self.objective_of[k])
        return key, self.objective_of[key]

    def remaining_seconds(self, training: float) -> float | None:
        """Time to the end at the rate of the `training` seconds since the first result; None before the first epoch."""
        if not self.epochs_now:
            return None
        left = max(self.epochs - self.epochs_before - self.epochs_now, 0)
        return training / self.epochs_now * left

    def line(self, elapsed: float, training: float) -> str:
        """One sentence on the state of the sweep, `elapsed` seconds after the launch and `training` after a result."""
        parts = [f"trials {self.done}/{self.trials} done, {len(self.running)} running"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        parts.append(f"epochs {self.epochs_before + self.epochs_now}/{self.epochs}")
        if self.best:
            parts.append(f"leading now: validation IQM {self.best[1]:+.3f} ({self.best[0]})")
        left = self.remaining_seconds(training)
        parts.append(f"{clock(elapsed)} elapsed" + (f", about {clock(left)} left" if left is not None else ""))
        return " · ".join(parts)


def clock(seconds: float) -> str:
    """Seconds as 0:07, 12:34 or 1:02:03."""
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


class Progress:
    """Shows a Tally. Use as a context manager; `said` prints a sentence above the live block."""

    def __init__(
        self,
        tally: Tally,
        console: Console,
        quiet: bool = False,
        *,
        outcome: Callable[[str], tuple[str, str]] = lambda key: ("done", ""),
        now: Callable[[], float] = time.monotonic,
    ):
        """`outcome(key)`: recorded status of a trial that ended, and its error if it failed."""
        self.tally = tally
        self._outcome = outcome
        self.console = console
        self.quiet = quiet
        self.phase = "starting Ray"
        self._now = now
        self._started = now()
        self._last_line = self._started
        self._first_result: float | None = None
        self._live = None
        if console.is_terminal and not quiet:
            self._live = Live(get_renderable=self._block, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def said(self, sentence: str) -> None:
        if not self.quiet:
            self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def started(self, key: str) -> None:
        if not self.tally.epoch_of:
            self.phase = "starting trials"
        self.tally.running.add(key)

    def result(self, key: str, epoch: int, objective: float) -> None:
        self._first_result = self._first_result or self._now()
        if self.phase == "starting trials":
            self.phase = ""
        self.tally.result(key, epoch, objective)
        self._plain_line(after=LINE_SECONDS)

    def ended(self, key: str) -> None:
        """The trial ended by itself, or was stopped; the record says how."""
        self.tally.running.discard(key)
        status, error = self._outcome(key)
        if status == "failed":
            self.failed(key, error)
        elif status == "done":
            self.tally.done += 1
            self._plain_line(after=0.0)

    def retried(self, key: str, error: str) -> None:
        self.tally.running.discard(key)
        self.said(f"{key}: {error}; trying again from its last checkpoint")

    def failed(self, key: str, error: str) -> None:
        self.tally.running.discard(key)
        self.tally.failed[key] = error
        self.said(f"{key}: failed: {error}")
        self._plain_line(after=0.0)

    def stopping(self) -> None:
        self.phase = "stopping"
        self.said("stopping; the epochs recorded so far are kept (interrupt again to stop at once)")

    def _line(self) -> str:
        now = self._now()
        return self.tally.line(now - self._started, now - (self._first_result or now))

    def _plain_line(self, after: float) -> None:
        if self._live is None and self._now() - self._last_line >= after:
            self._last_line = self._now()
            self.said(self._line())

    def _block(self) -> Group:
        tally = self.tally
        done = tally.epochs_before + tally.epochs_now
        head = Table.grid(padding=(0, 1))
        head.add_row(ProgressBar(total=max(tally.epochs, 1), completed=done, width=40), Text(self.phase, style="dim"))
        rows: list[Table | Text] = [head, Text(self._line())]
        for key in sorted(tally.running & tally.epoch_of.keys()):
            rows.append(Text(f"  {key}  epoch {tally.epoch_of[key]}  IQM {tally.objective_of[key]:+.3f}", style="dim"))
        return Group(*rows)
