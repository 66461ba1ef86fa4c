"""How often the hold-out of these bars was opened, as the folder of experiments has counted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.load import Experiment
from trainer.record import RecordError, read_json

FILE = "holdout.json"  # beside the experiments; `gemsweep confirm` writes a row before it looks


@dataclass(frozen=True)
class Openings:
    """`rows`: every counted opening of the hold-out of this experiment's bars, oldest first; `problem`: why the count
    cannot be read, "" when it can."""

    rows: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""

    @property
    def text(self) -> str:
        """The count, and who opened it when."""
        if self.problem:
            return f"not known ({self.problem})"
        if not self.rows:
            return "opened 0 times"
        by = "; ".join(f"{row.get('experiment')}, {str(row.get('opened'))[:10]}" for row in self.rows)
        return f"opened {len(self.rows)} time{'s' * (len(self.rows) > 1)} ({by})"


def openings(experiment: Experiment) -> Openings:
    """From the file beside the experiment's folder; rows of other bars are not counted."""
    path = experiment.path.resolve().parent / FILE
    if not path.exists():
        return Openings()
    own = (experiment.plan.get("data") or {}).get("sha256")
    try:
        return Openings(tuple(row for row in read_json(path)["openings"] if row["data"] == own))
    except (RecordError, KeyError, TypeError):
        return Openings(problem=f"{FILE} is damaged")
