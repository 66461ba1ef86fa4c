"""Studies on disk that are planned and not run, and verdicts as the judge would hand them out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from sweep.config import SweepConfig
from sweep.experiment import create
from sweep.plan import make_plan
from sweep.study import Study, open_study
from sweep.toml_file import read_config
from trainer.config import Machine

SMALL = [
    "data.symbols=['IBM']",
    "trainer.epochs=1",
    "trainer.score_epochs=1",
    "trainer.updates_per_epoch=4",
    "sweep.seeds=2",
    "data.folds.count=1",
]


def settings(storage: Path, *overrides: str, name: str = "study") -> SweepConfig:
    return read_config(None, [*SMALL, *overrides], {"sweep.storage": str(storage), "sweep.name": name})


def planned_study(storage: Path, *overrides: str, count: int | None = None) -> Study:
    config = settings(storage, *overrides)
    create(storage / "study", config, make_plan(config, Machine(), count))
    return open_study(storage / "study")


def verdict(
    gem: str, label: str = "MORE TRIALS", grade: str = "undecided", stage: int = 1, dose=None
) -> SimpleNamespace:
    title = f"{label} ({grade})"
    return SimpleNamespace(gem=gem, label=label, grade=grade, stage=stage, dose=dose, title=title, reason="as it is")
