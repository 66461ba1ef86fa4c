"""The folder of an experiment, as a launch sees it: created once, opened again, held by one sweep at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweep.config import SweepConfig
from sweep.errors import ConfigError, ResumeError, SweepError
from sweep.plan import Plan, planned
from sweep.toml_file import to_toml
from trainer.config import TrialSpec
from trainer.record import (
    RecordError,
    check_trial,
    mark_failed,
    read_failed,
    read_plan,
    stored_epochs,
    trial_status,
    write_config,
    write_plan,
    write_timeline,
)
from trainer.record.lock import TrialLock, TrialLocked


def free_name(storage: Path, name: str) -> str:
    """`name`, or `name-2`, `name-3`, ... when it is taken."""
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, 10**6))
    return next(candidate for candidate in names if not (storage / candidate).exists())


def create(folder: Path, config: SweepConfig, plan: Plan) -> None:
    """Write plan, configuration and timeline into a new folder; the plan comes last and makes it an experiment.

    Errors: ConfigError when the folder exists or cannot be made.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise taken(folder) from None
    except OSError as error:
        raise ConfigError(f"sweep.storage: {folder} cannot be made ({error.strerror or error})") from None
    write_config(folder, to_toml(config.model_dump(mode="json")))
    write_timeline(folder, plan.timeline)
    write_plan(folder, plan.data)


def taken(folder: Path) -> ConfigError:
    """The refusal of a name that is in use, with the ways out."""
    if not (folder / "plan.json").exists():
        return ConfigError(
            f"sweep.name: {folder} exists but holds no plan, as after a crash while it was made; delete it, or take "
            f"another name by --name"
        )
    return ConfigError(
        f"sweep.name: {folder} exists; go on with it by `gemsweep resume {folder}`, or take another name by --name"
    )


def open_plan(folder: Path) -> dict[str, TrialSpec]:
    """The planned trials by key in launch order. Errors: ResumeError when the folder holds no usable plan."""
    try:
        plan = read_plan(folder)
        _check_complete(folder, plan)
        return planned(plan)
    except (RecordError, KeyError, ValueError) as error:
        raise ResumeError(f"cannot resume: {error}") from None


def _check_complete(folder: Path, plan: dict[str, Any]) -> None:
    missing = [key for key in ("trials", "data", "gems") if not plan.get(key)]
    missing += [f"gems: {row['name']}: sha256" for row in plan.get("gems", []) if "sha256" not in row]
    if missing:
        raise ResumeError(
            f"cannot resume: {folder / 'plan.json'} lacks {', '.join(missing)}; it is of an older version of gemsweep: "
            f"use that one, or start a new sweep"
        )


def unfinished(folder: Path, specs: dict[str, TrialSpec]) -> list[str]:
    """Keys still to run, in launch order: neither done nor stopped by a scheduler. Failed ones are tried again."""
    return [key for key in specs if not _is_final(folder, key)]


def _is_final(folder: Path, key: str) -> bool:
    """Stopped by a scheduler, or done with every part intact: a resume computes a damaged epoch again."""
    status = trial_status(folder, key)
    if status == "failed":
        return read_failed(folder, key)["cause"] == "stopped"
    return status == "done" and not check_trial(folder, key)


def outcome(folder: Path, key: str) -> tuple[str, str]:
    """Recorded status of a trial, and its error when it failed."""
    status = trial_status(folder, key)
    return status, str(read_failed(folder, key)["error"]) if status == "failed" else ""


def record_failures(folder: Path, specs: dict[str, TrialSpec], errors: dict[str, str]) -> None:
    """Write down the failures that the trials' own processes could not."""
    for key, error in errors.items():
        if trial_status(folder, key) not in ("failed", "done"):
            mark_failed(folder, specs[key], "pack", error)


def recorded_epochs(folder: Path, key: str) -> int:
    """Epochs of training that are stored, the untrained epoch 0 not counted."""
    return max(len(stored_epochs(folder, key)) - 1, 0)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps a second sweep out of the folder; the lock goes with this process, however it ends."""
    try:
        lock = TrialLock(folder / "lock")
    except TrialLocked:
        holder = (folder / "lock").read_text(errors="replace").strip()
        raise SweepError(f"{folder}: a sweep is running in it ({holder}); wait for it or stop it first") from None
    try:
        yield
    finally:
        lock.release()
