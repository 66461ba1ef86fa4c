"""The plan: every trial of a sweep, its seeds and folds, and what will decide the verdicts, before anything runs.

The plan is plain data (`plan.json`); workers read their trial from it, and results are found by the trial's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sweep.config import MAX_SEEDS, SweepConfig
from sweep.errors import ConfigError
from sweep.features import arm_notes
from sweep.inputs import digest
from sweep.search import draw
from trainer.config import (
    BUILTIN_GEMS,
    MAY_DUPLICATE,
    ArmConfig,
    DataConfig,
    Machine,
    Member,
    TrainerConfig,
    TrialSpec,
    config_key,
)

if TYPE_CHECKING:
    from trainer.data import Span

PLAN_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Plan:
    """The plan as data, the timeline its positions refer to, and what the user should hear before the start."""

    data: dict[str, Any]
    timeline: Any  # DatetimeIndex of the pooled timeline
    notes: tuple[str, ...]


def make_plan(config: SweepConfig, machine: Machine, count: int | None = None) -> Plan:
    """Draw the configurations, read the bars once and lay out the trials; of the first `count` configurations only.

    Errors: ConfigError for impossible configurations; DataError for bars that cannot be used as given.
    """
    from analysis.rules import VerdictRules
    from trainer.data.source import load_table
    from trainer.provenance import environment

    section = config.sweep
    gems = gem_rows(config.arms.gems)
    configurations, note = draw(config.space, section.search, section.trials, section.seed)
    notes = (note, *arm_notes(config.arms, configurations))
    trials = list(trial_specs(config, configurations[:count], machine))
    table = load_table(config.data)
    rules = VerdictRules.from_dict(config.analysis.model_dump())
    data = {
        "schema": PLAN_SCHEMA_VERSION,
        "name": section.name,
        "label": section.label,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": section.seed,
        "trials": [trial.model_dump(mode="json") for trial in trials],
        "folds": [_span_row(f.index, name, span) for f in table.folds for name, span in f.spans.items()],
        "holdout": _span_row(None, "holdout", table.holdout),
        "data": {
            "sha256": table.sha256,
            "report": table.report,
            "periods_per_year": table.periods_per_year,
            "symbols": list(table.symbols),
        },
        "gems": gems,
        "verdict": {
            "rules": rules.to_dict(),
            "rules_hash": rules.hash,
            "schedule": list(rules.schedule),
            "alpha": rules.alpha,
            "score": "mean annualised judge Sharpe of the last trainer.score_epochs epochs",
        },
        "versions": environment(machine.device, machine.threads),
    }
    return Plan(data, table.timeline, tuple(note for note in notes if note))


def gem_rows(references: tuple[str, ...]) -> list[dict[str, Any]]:
    """Each gem's name as it stands in records, where it comes from, and what it may only repeat.

    A user's gem is loaded here, so that a broken one starts nothing; its file is digested, so that an edit shows.
    The rows have the order of the configuration.
    """
    if set(references) <= set(BUILTIN_GEMS):
        return [_gem_row(name, name, MAY_DUPLICATE[name]) for name in references]
    from trainer.gems.registry import GemError, load_gems

    try:
        gems = {gem.reference: gem for gem in load_gems(references)}
    except GemError as error:
        raise ConfigError(f"arms.gems: {error}") from None
    return [_gem_row(gems[each].name, each, gems[each].may_duplicate) for each in references]


def _gem_row(name: str, reference: str, may_duplicate: tuple[str, ...]) -> dict[str, Any]:
    path = Path(reference.rpartition(":")[0])
    sha = digest(path) if path.suffix == ".py" else None
    return {"name": name, "reference": reference, "may_duplicate": list(may_duplicate), "sha256": sha}


def block_seeds(seed: int, block: int, count: int) -> tuple[int, ...]:
    """Seeds of the runs of a block, common to all configurations; blocks and sweep seeds never share one."""
    return tuple((seed * MAX_SEEDS + block) * MAX_SEEDS + index for index in range(count))


def trial_specs(config: SweepConfig, configurations: list[TrainerConfig], machine: Machine) -> Iterator[TrialSpec]:
    """The trials of block 0 in launch order: the base arm first, then the further arms on its seeds and folds.

    The first configuration also runs the off arm if purity is asked for.
    """
    every, off = (config.arms.base_arm(), *config.arms.further_arms()), config.arms.off_arm()
    launch = 0
    for number, trainer in enumerate(configurations):
        arms = (*every, off) if off and config.arms.purity and number == 0 else every
        for spec in trials_of(config, trainer, arms, machine, launch):
            yield spec
            launch = spec.launch + 1


def trials_of(
    config: SweepConfig,
    trainer: TrainerConfig,
    arms: tuple[ArmConfig, ...],
    machine: Machine,
    launch: int,
    ending: str = "",
) -> Iterator[TrialSpec]:
    """The trials that train `arms` of one configuration on the seeds and folds of `config`, from launch number `launch`
    on. `ending` tells their keys from those of other trials of the configuration."""
    seeds = block_seeds(config.sweep.seed, 0, config.sweep.seeds)
    members = tuple(
        Member(arm=arm.name, seed=seed, fold=fold)
        for arm in arms
        for seed in seeds
        for fold in range(config.data.folds.count)
    )
    for offset, (key_end, pack) in enumerate(_packs(members, config.sweep.pack)):
        yield _spec(config.data, trainer, arms, pack, machine, launch + offset, ending + key_end)


def _packs(members: tuple[Member, ...], pack: str) -> Iterator[tuple[str, tuple[Member, ...]]]:
    """(end of the trial key, members) of each trial of one configuration and block."""
    if pack == "all":
        yield "", members
        return
    for member in members:
        yield f"-{member.arm}-s{member.seed}-f{member.fold}", (member,)


def _spec(
    data: DataConfig,
    trainer: TrainerConfig,
    arms: tuple[ArmConfig, ...],
    members: tuple[Member, ...],
    machine: Machine,
    launch: int,
    key_end: str,
) -> TrialSpec:
    name = config_key(data, trainer)
    used = tuple(arm for arm in arms if any(member.arm == arm.name for member in members))
    try:
        return TrialSpec(
            key=f"{name}-b0{key_end}",
            config_key=name,
            launch=launch,
            data=data,
            trainer=trainer,
            arms=used,
            members=members,
            machine=machine,
        )
    except ValidationError as error:
        messages = [finding["msg"].removeprefix("Value error, ") for finding in error.errors()]
        raise ConfigError("; ".join(messages)) from None


def _span_row(fold: int | None, name: str, span: Span) -> dict[str, Any]:
    row = {
        "span": name,
        "start": span.start,
        "stop": span.stop,
        "start_time": span.start_time.isoformat(),
        "stop_time": span.stop_time.isoformat(),
    }
    return row if fold is None else {"fold": fold, **row}


def planned(plan: Mapping[str, Any]) -> dict[str, TrialSpec]:
    """The trials of a stored plan by key, in launch order."""
    specs = [TrialSpec.model_validate(trial) for trial in plan["trials"]]
    return {spec.key: spec for spec in specs}
