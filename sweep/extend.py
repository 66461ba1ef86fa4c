"""`gemsweep extend`: more configurations for an experiment, from its own list, under its own rules."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sweep import experiment
from sweep.errors import ConfigError
from sweep.run import Outcome, resume
from sweep.study import Study, add_trials, new_trials, open_study
from sweep.trainable import Body


def extend(folder: Path, to: int, console: Console, *, quiet: bool = False, body: Body | None = None) -> Outcome:
    """Let the experiment in `folder` run `to` configurations in all, then what is left of it.

    Errors: ConfigError for fewer than there are, more than the last look of the schedule or more than the search space
    has; ResumeError when the experiment cannot grow.
    """
    study = open_study(folder)
    check_reach(study, to)
    with experiment.held(study.folder):
        study = open_study(folder)  # again, now that nobody else can change it
        if to > len(study.configurations):
            arms = (study.config.arms.base_arm(), *study.config.arms.further_arms())
            add_trials(study, new_trials(study, to, arms), f"extended to {to} configurations")
    return resume(study.folder, console, quiet=quiet, body=body)


def check_reach(study: Study, to: int) -> None:
    now, last = len(study.configurations), study.schedule[-1]
    if to < now:
        raise ConfigError(f"--to {to}: {study.folder} has {now} configurations already; give a larger number")
    if to > last:
        raise ConfigError(
            f"--to {to}: the plan of {study.folder} ends its looks at {last} configurations; more than {last} is a new "
            f"study: set analysis.schedule in its configuration"
        )
