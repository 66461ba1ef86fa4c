"""Ray's side of a trial: what is stored is also told to Tune, as flat finite numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainer.reporter import Checkpoint, EpochRecord, Reporter

Metrics = dict[str, float | int]


class NotFinite(RuntimeError):
    """A number that Tune would choke on; raised in the worker, so that only this trial fails."""


class RayReporter:
    """Wraps the reporter that stores, and reports every epoch to Tune after it is safely on disk."""

    def __init__(self, inner: Reporter, report: Callable[[Metrics], None]) -> None:
        self.inner = inner
        self.report = report

    def resume(self) -> Checkpoint | None:
        return self.inner.resume()

    def epoch(self, record: EpochRecord, state: Callable[[], Checkpoint]) -> bool:
        row = metrics(record)  # before storing: an epoch that fails the guard is computed again after a resume
        stop = self.inner.epoch(record, state)
        self.report(row)
        return stop

    def finish(self, summary: dict[str, Any]) -> None:
        self.inner.finish(summary)


def metrics(record: EpochRecord) -> Metrics:
    """The same keys every epoch: objective, mean and variance of the base arm's validation Sharpe, gem values.

    A gem that is off has no key; a gem that no healthy member measured reads 0. Errors: NotFinite.
    """
    columns = record.columns
    base = np.asarray(columns["arm"]) == "base"
    if not base.any():
        base = np.ones(len(base), dtype=bool)
    sharpe = np.asarray(columns["eval/validation/sharpe"], dtype=float)[base]
    row: Metrics = {
        "epoch": int(record.epoch),
        "objective": float(record.objective),
        "sharpe": float(sharpe.mean()),
        "sharpe_var": float(sharpe.var(ddof=1)) if len(sharpe) > 1 else 0.0,
        "frozen": int(np.sum(np.asarray(columns["status"]) == "frozen")),
        "members": len(columns["arm"]),
    }
    for gem in _gems(columns):
        if not (np.asarray(columns[f"gem/{gem}/mode"])[base] == "off").all():
            measured = np.asarray(columns[f"gem/{gem}/value"], dtype=float)[base]
            measured = measured[np.isfinite(measured)]
            row[f"gems/{gem}"] = float(measured.mean()) if len(measured) else 0.0
    wrong = [name for name, value in row.items() if not math.isfinite(value)]
    if wrong:
        raise NotFinite(f"epoch {record.epoch}: {', '.join(wrong)} not finite; see the trial's log")
    return row


def _gems(columns: Mapping[str, Any]) -> list[str]:
    return [name[len("gem/") : -len("/mode")] for name in columns if name.startswith("gem/") and name.endswith("/mode")]
