"""A study that grows: trials are added to a plan whose rules, gems, data and order stay what they were.

Looking again after more trials costs no error rate, as long as the trials follow the plan's own list of configurations
and its schedule of looks. So this file only ever appends, and notes each time in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweep import experiment
from sweep.config import SweepConfig
from sweep.errors import ConfigError, ResumeError
from sweep.inputs import check_inputs
from sweep.plan import trials_of
from sweep.search import draw
from sweep.toml_file import read_config
from trainer.config import ArmConfig, Machine, TrainerConfig, TrialSpec, config_key
from trainer.record import read_plan, write_plan


@dataclass(frozen=True)
class Study:
    """An experiment opened to grow. `configurations`: keys in launch order; `machine`: what its trials were given."""

    folder: Path
    config: SweepConfig
    plan: dict[str, Any]
    specs: dict[str, TrialSpec]

    @property
    def configurations(self) -> list[str]:
        return list(dict.fromkeys(spec.config_key for spec in self.specs.values()))

    @property
    def machine(self) -> Machine:
        return next(iter(self.specs.values())).machine

    @property
    def schedule(self) -> tuple[int, ...]:
        """Numbers of configurations at which verdicts are looked at."""
        return tuple(self.plan["verdict"]["schedule"])

    def arms_of(self, configuration: str) -> set[str]:
        """Names of the arms that some trial of the configuration trains."""
        own = [spec for spec in self.specs.values() if spec.config_key == configuration]
        return {member.arm for spec in own for member in spec.members}

    def drawn(self, count: int) -> dict[str, TrainerConfig]:
        """The first `count` configurations of the study's list by key. Errors: ConfigError when there are fewer."""
        section = self.config.sweep
        found, note = draw(self.config.space, section.search, max(count, section.trials), section.seed)
        if len(found) < count:
            raise ConfigError(note or f"{self.folder}: the search space has only {len(found)} configurations")
        keyed = {config_key(self.config.data, trainer): trainer for trainer in found}
        known = self.configurations
        if list(keyed)[: len(known)] != known:
            raise ResumeError(
                f"cannot extend: config.toml in {self.folder} does not draw the configurations of its plan; put back "
                f"what it was, or start a new study"
            )
        return dict(list(keyed.items())[:count])


def open_study(folder: Path) -> Study:
    """The experiment in `folder`, checked: bars and gem files are those of its plan.

    Errors: ResumeError when it cannot grow.
    """
    folder = folder.resolve()
    specs = experiment.open_plan(folder)
    plan = read_plan(folder)
    check_inputs(plan, next(iter(specs.values())).data)
    try:
        config = read_config(folder / "config.toml", [], {})
    except ConfigError as error:
        raise ResumeError(f"cannot extend: {error}") from None
    return Study(folder, config, plan, specs)


def add_trials(study: Study, trials: Sequence[TrialSpec], why: str) -> None:
    """Append `trials` to the plan and note it. Errors: ResumeError when one is there already."""
    known = [spec.key for spec in trials if spec.key in study.specs]
    if known:
        raise ResumeError(f"cannot extend: {study.folder} has trial {known[0]} already")
    note = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "trials": len(trials), "why": why}
    plan = study.plan | {
        "trials": [*study.plan["trials"], *(spec.model_dump(mode="json") for spec in trials)],
        "extensions": [*study.plan.get("extensions", []), note],
    }
    write_plan(study.folder, plan, replace=True)


def next_launch(study: Study) -> int:
    return max(spec.launch for spec in study.specs.values()) + 1


def new_trials(study: Study, to: int, arms: tuple[ArmConfig, ...]) -> list[TrialSpec]:
    """Trials of `arms` on the configurations that are still missing up to `to`."""
    trials: list[TrialSpec] = []
    for key, trainer in study.drawn(to).items():
        if key not in study.configurations:
            trials += trials_of(study.config, trainer, arms, study.machine, next_launch(study) + len(trials))
    return trials
