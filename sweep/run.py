"""A sweep from its configuration, or from its folder, to the end of its last trial."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sweep import experiment
from sweep.config import SweepConfig
from sweep.errors import GOOD, INTERRUPTED, SOME_TRIALS_FAILED, ConfigError, ResumeError
from sweep.inputs import check_inputs
from sweep.memory import fit
from sweep.progress import Progress, Tally
from sweep.resources import Share, share_out
from sweep.trainable import Body
from trainer.config import TrialSpec
from trainer.data.errors import DataError
from trainer.record import read_plan

if TYPE_CHECKING:
    from sweep.plan import Plan

LONGEST_NAME = 80  # leaves room for the number that tells two sweeps of one file apart


@dataclass(frozen=True)
class Outcome:
    """How a launch ended. `left` are the trials that a resume would run."""

    folder: Path
    failed: dict[str, str]
    left: list[str]

    @property
    def exit_code(self) -> int:
        if set(self.left) - set(self.failed):
            return INTERRUPTED
        return SOME_TRIALS_FAILED if self.failed else GOOD


def run(
    config: SweepConfig,
    console: Console,
    *,
    fallback_name: str = "sweep",
    quiet: bool = False,
    body: Body | None = None,
) -> Outcome:
    """Plan the sweep, write the plan, run it. Without `sweep.name`, the first free name after `fallback_name` is taken.

    Errors: ConfigError or DataError before anything is written or started.
    """
    config, plan, share, pack_gb = prepare(config, fallback_name)
    folder = begin(config, plan, console, quiet)
    return _run_left(folder, config, share, pack_gb, console, quiet, body)


def prepare(
    config: SweepConfig, fallback_name: str, count: int | None = None
) -> tuple[SweepConfig, Plan, Share, float]:
    """The named configuration, the plan (of its first `count` configurations), each trial's share and the predicted GB
    of the largest pack. Writes nothing. Errors: ConfigError."""
    from sweep.plan import make_plan, planned

    storage = Path(config.sweep.storage).expanduser().resolve()
    name = config.sweep.name or experiment.free_name(storage, usable_name(fallback_name))
    config = config.model_copy(update={"sweep": config.sweep.model_copy(update={"name": name})})
    if (storage / name).exists():
        raise experiment.taken(storage / name)
    share = share_out(config.sweep)
    try:
        plan = make_plan(config, share.machine, count)
    except DataError as error:
        raise ConfigError(f"data: {error}") from None
    share, pack_gb = fit(share, config.sweep.concurrent, planned(plan.data), plan.data)
    return config, plan, share, pack_gb


def begin(config: SweepConfig, plan: Plan, console: Console, quiet: bool) -> Path:
    """Write the experiment's folder, say what the plan has to say, and return the folder."""
    folder = Path(config.sweep.storage).expanduser().resolve() / config.sweep.name
    experiment.create(folder, config, plan)
    if not quiet:
        for note in plan.notes:
            console.print(note, highlight=False, markup=False, soft_wrap=True)
    return folder


def usable_name(text: str) -> str:
    """`text` as the name of a folder that every system takes and that a resume accepts again."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).lstrip("_.-")
    return plain[:LONGEST_NAME].rstrip(".-") or "sweep"


def resume(folder: Path, console: Console, *, quiet: bool = False, body: Body | None = None) -> Outcome:
    """Run what is left of the sweep in `folder`, each trial from its newest checkpoint.

    Errors: ResumeError when the folder holds no usable plan or configuration.
    """
    from sweep.toml_file import read_config

    folder = folder.resolve()
    specs = experiment.open_plan(folder)
    plan = read_plan(folder)
    check_inputs(plan, next(iter(specs.values())).data)
    try:
        config = read_config(folder / "config.toml", [], {})
        share, pack_gb = fit(share_out(config.sweep), config.sweep.concurrent, specs, plan)
    except ConfigError as error:
        raise ResumeError(f"cannot resume: {error}") from None
    return _run_left(folder, config, share, pack_gb, console, quiet, body)


def _run_left(
    folder: Path, config: SweepConfig, share: Share, pack_gb: float, console: Console, quiet: bool, body: Body | None
) -> Outcome:
    specs = experiment.open_plan(folder)
    with experiment.held(folder):
        keys = experiment.unfinished(folder, specs)
        failed: dict[str, str] = {}
        if keys:
            from sweep.launch import launch

            tally = _tally(folder, specs, keys)
            with Progress(tally, console, quiet, outcome=partial(experiment.outcome, folder)) as progress:
                progress.said(_opening(folder, config, specs, keys, share, pack_gb))
                with suppress(KeyboardInterrupt):  # the second interrupt; what is left can be resumed
                    launch(folder, keys, share, config.sweep.max_failures, progress, body)
            failed = dict(tally.failed)
            experiment.record_failures(folder, specs, failed)
        return Outcome(folder, failed, experiment.unfinished(folder, specs))


def _tally(folder: Path, specs: dict[str, TrialSpec], keys: list[str]) -> Tally:
    return Tally(
        trials=len(specs),
        epochs=sum(spec.trainer.epochs for spec in specs.values()),
        done=len(specs) - len(keys),
        epochs_before=sum(experiment.recorded_epochs(folder, key) for key in specs),
    )


def _opening(
    folder: Path, config: SweepConfig, specs: dict[str, TrialSpec], keys: list[str], share: Share, pack_gb: float
) -> str:
    label = f" ({config.sweep.label})" if config.sweep.label else ""
    runs = sum(len(spec.members) for spec in specs.values())
    left = "" if len(keys) == len(specs) else f", {len(keys)} of them left"
    where = f"{share.concurrent} at a time on {share.machine.device}, memory {pack_gb:.1f} GB a pack (predicted)"
    return f"{folder}{label}: {len(specs)} trials, {runs} runs{left}; {where}"
