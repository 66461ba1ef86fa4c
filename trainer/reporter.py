"""What a trial body tells the outside: one record an epoch, a checkpoint on request, the end.

`run_trial` knows this protocol only. Stores, Ray and the replay check are classes behind it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from trainer.record.checkpoints import Checkpoint
from trainer.record.parts import encode_columns
from trainer.record.store import TrialStore

if TYPE_CHECKING:
    import pandas as pd

State = Callable[[], Checkpoint]


@dataclass
class EpochRecord:
    """What an epoch leaves. `columns`: name -> one entry per member; `objective`: what the search maximises."""

    epoch: int
    columns: dict[str, np.ndarray | list[Any]]
    objective: float
    lines: list[str] = field(default_factory=list)


class Reporter(Protocol):
    """The three calls of a trial body."""

    def resume(self) -> Checkpoint | None:
        """The state to continue from, None for a fresh start. Called once, after thread counts are set."""

    def epoch(self, record: EpochRecord, state: State) -> bool:
        """Called for epoch 0 (untrained) and after each epoch. True: stop now and do not call `finish`."""

    def finish(self, summary: dict[str, Any]) -> None:
        """All epochs are done; `summary` is JSON-plain."""


class StoreReporter:
    """Writes every epoch to the trial's folder."""

    def __init__(self, store: TrialStore) -> None:
        self.store = store

    def resume(self) -> Checkpoint | None:
        return self.store.resume()

    def epoch(self, record: EpochRecord, state: State) -> bool:
        self.store.write_epoch(record.epoch, record.columns, state(), record.lines)
        return False

    def finish(self, summary: dict[str, Any]) -> None:
        self.store.finish(summary)


class MemoryReporter:
    """Keeps records in memory, for notebooks and tests.

    `start`: checkpoint to continue from. `stop_after`: epoch after which to stop. `checkpoint`: the latest state.
    """

    def __init__(self, start: Checkpoint | None = None, stop_after: int | None = None) -> None:
        self.start = start
        self.stop_after = stop_after
        self.records: list[EpochRecord] = []
        self.checkpoint: Checkpoint | None = None
        self.summary: dict[str, Any] | None = None

    def resume(self) -> Checkpoint | None:
        return copy.deepcopy(self.start)

    def epoch(self, record: EpochRecord, state: State) -> bool:
        self.records.append(copy.deepcopy(record))  # the trainer may reuse its buffers
        self.checkpoint = copy.deepcopy(state())
        return record.epoch == self.stop_after

    def finish(self, summary: dict[str, Any]) -> None:
        self.summary = summary

    def frame(self) -> pd.DataFrame:
        """All records as one frame, as `trainer.record.read_epochs` gives them from a folder."""
        import pyarrow as pa

        tables = [encode_columns(record.columns) for record in self.records]
        return pa.concat_tables(tables, promote_options="permissive").to_pandas()
