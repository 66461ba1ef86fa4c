"""`gemsweep decide`: probe every gem, wire what is promoted, look where the schedule says, stop when all is settled.

The state of a study is what its folder holds, so a study that was stopped anywhere goes on with the same command: the
next step follows from the plan and the verdicts alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sweep import experiment
from sweep.arms import FurtherArm
from sweep.config import SweepConfig
from sweep.errors import INTERRUPTED, ConfigError
from sweep.plan import gem_rows, trials_of
from sweep.run import Outcome, begin, prepare, resume
from sweep.study import Study, add_trials, new_trials, next_launch, open_study
from sweep.trainable import Body
from trainer.config import ArmConfig, TrialSpec

if TYPE_CHECKING:
    from analysis.verdict import Verdict

OPEN = "MORE TRIALS"


@dataclass(frozen=True)
class Budget:
    """`configurations`: the most that may run. `hours`: after so many no further step starts; None: no such limit."""

    configurations: int
    hours: float | None = None


@dataclass(frozen=True)
class Step:
    """What a study runs next, and why; without trials it has ended."""

    trials: tuple[TrialSpec, ...]
    why: str


def decide(
    config: SweepConfig,
    console: Console,
    *,
    fallback_name: str = "study",
    hours: float | None = None,
    quiet: bool = False,
    body: Body | None = None,
) -> tuple[Outcome, str]:
    """Start a study of at most `sweep.trials` configurations and run it to its end; see `go_on`.

    An arm without each existing feature that a gem may only repeat is added, since redundancy is judged by leaving the
    feature out. Errors: ConfigError before anything is written or started.
    """
    schedule = config.analysis.schedule
    if config.sweep.trials < schedule[0]:
        raise ConfigError(
            f"sweep.trials: {config.sweep.trials} configurations reach no look; the first needs {schedule[0]} "
            f"(analysis.schedule)"
        )
    if config.analysis.unit == "seed":
        raise ConfigError(
            "analysis.unit: a study adds configurations step by step, and unit = 'seed' is a claim about one; "
            "run it with `gemsweep run` and sweep.trials = 1"
        )
    config = with_ablations(config)
    named, plan, _, _ = prepare(config, fallback_name, schedule[0])
    return go_on(begin(named, plan, console, quiet), console, hours=hours, quiet=quiet, body=body)


def with_ablations(config: SweepConfig) -> SweepConfig:
    """The configuration with an arm without every feature that one of its gems may duplicate."""
    wanted = dict.fromkeys(name for row in gem_rows(config.arms.gems) for name in row["may_duplicate"])
    given = {arm.off for arm in config.arms.further}
    added = tuple(FurtherArm(off=name) for name in wanted if name not in given)
    arms = config.arms.model_copy(update={"further": (*config.arms.further, *added)})
    return config.model_copy(update={"arms": arms})


def go_on(
    folder: Path, console: Console, *, hours: float | None = None, quiet: bool = False, body: Body | None = None
) -> tuple[Outcome, str]:
    """Run the study in `folder` step by step until it ends. Returns the last launch's outcome and why it ended.

    Its limit is `sweep.trials` of its configuration, and `hours` counted from now. Trials that fail for good are left
    out of the evidence; an interrupt ends it, to be continued by the same command.
    """
    started = time.monotonic()
    while True:
        outcome = resume(folder, console, quiet=quiet, body=body)
        if outcome.exit_code == INTERRUPTED:
            return outcome, "interrupted"
        study, verdicts = open_study(folder), read_verdicts(folder)
        if not quiet:
            _tell(console, study, verdicts)
        budget = Budget(study.config.sweep.trials, None if hours is None else hours - _hours_since(started))
        with experiment.held(folder):
            step = next_step(study, verdicts, budget)
            if not step.trials:
                return outcome, step.why
            add_trials(study, step.trials, step.why)


def read_verdicts(folder: Path) -> list[Verdict]:
    from analysis.judge import verdicts
    from analysis.load import load

    return verdicts(load(folder))


def next_step(study: Study, verdicts: Sequence[Verdict], budget: Budget) -> Step:
    """The wired arms that are missing on configurations that ran, else the configurations up to the next look."""
    undecided = [verdict for verdict in verdicts if not is_settled(verdict, study.config.analysis.policy)]
    if not undecided:
        return Step((), "every gem is settled")
    if budget.hours is not None and budget.hours <= 0:
        return Step((), "the hours are spent")
    wired = wired_arms(study, [verdict for verdict in undecided if is_promoted(verdict)])
    if missing := missing_trials(study, wired):
        names = ", ".join(arm.name for arm in wired)
        return Step(tuple(missing), f"{names} on the configurations that ran")
    now = len(study.configurations)
    ahead = [look for look in study.schedule if now < look <= budget.configurations]
    if not ahead:
        return Step((), f"the budget of {budget.configurations} configurations allows no further look")
    arms = (study.config.arms.base_arm(), *_every_arm(study, wired))
    return Step(tuple(new_trials(study, ahead[0], arms)), f"the look at {ahead[0]} configurations")


def is_settled(verdict: Verdict, policy: str) -> bool:
    """Whether more trials have nothing to add: under the policy `seed` the signal alone decides."""
    return verdict.label != OPEN or (policy == "seed" and verdict.grade == "candidate")


def is_promoted(verdict: Verdict) -> bool:
    """Its signal is real and new as far as stage 1 can tell: worth a wired arm."""
    return verdict.stage == 2 or verdict.grade == "candidate"


def wired_arms(study: Study, promoted: Sequence[Verdict]) -> list[ArmConfig]:
    """An arm that wires each promoted gem at its default dose, unless the configuration wires it already."""
    references = {row["name"]: row["reference"] for row in study.plan["gems"]}
    base, given = study.config.arms.base_arm(), {arm.wired for arm in study.config.arms.further}
    wanted = [references[verdict.gem] for verdict in promoted if references[verdict.gem] not in given]
    return [FurtherArm(wired=reference).of(base) for reference in wanted if base.gems[reference].mode != "wired"]


def missing_trials(study: Study, arms: Sequence[ArmConfig]) -> list[TrialSpec]:
    """Trials of `arms` on the study's configurations, where no trial trains them yet."""
    trials: list[TrialSpec] = []
    ending = f"-x{len(study.plan.get('extensions', [])) + 1}"
    for key, trainer in study.drawn(len(study.configurations)).items():
        present = study.arms_of(key)
        lacking = tuple(arm for arm in arms if arm.name not in present)
        if lacking:
            launch = next_launch(study) + len(trials)
            trials += trials_of(study.config, trainer, lacking, study.machine, launch, ending)
    return trials


def _every_arm(study: Study, wired: Sequence[ArmConfig]) -> list[ArmConfig]:
    given = list(study.config.arms.further_arms())
    return given + [arm for arm in wired if arm.name not in {other.name for other in given}]


def _tell(console: Console, study: Study, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        line = f"after {len(study.configurations)} configurations: {verdict.gem}: {verdict.title}: {verdict.reason}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _hours_since(started: float) -> float:
    return (time.monotonic() - started) / 3600.0
