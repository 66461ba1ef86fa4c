"""What was set up differently in several experiments: settings, code and machine, data. Read from their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.frames import flatten
from analysis.load import Experiment
from analysis.text import ABSENT, setting
from trainer.config import ArmConfig, GemConfig
from trainer.record import RecordError, read_trial

SHOWN_VALUES = 4  # of a searched setting; more are told as a range
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Difference:
    """One thing that is not equal, as text, one value an experiment."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Differences:
    """settings: trainer.*, arms.*, sweep.*, analysis.*; code: versions, source, gems, processor, threads; data: bars
    and the spans they are cut into."""

    settings: tuple[Difference, ...]
    code: tuple[Difference, ...]
    data: tuple[Difference, ...]


def differences(experiments: Sequence[Experiment]) -> Differences:
    """Everything that differs among two or more experiments; what is equal in all of them is left out."""
    common = set.intersection(*(set(_arms(experiment)) for experiment in experiments))
    others = _among(experiments, lambda experiment: _other_settings(experiment, common))
    return Differences(
        settings=tuple([*_searched(experiments), *others]),
        code=tuple(_among(experiments, _code)),
        data=tuple(_among(experiments, _data)),
    )


def _among(experiments: Sequence[Experiment], facts: Callable[[Experiment], dict[str, str]]) -> Iterable[Difference]:
    found = [facts(experiment) for experiment in experiments]
    for name in dict.fromkeys(name for each in found for name in each):
        values = tuple(each.get(name, "absent" if name.startswith("arms.") else NOT_RECORDED) for each in found)
        if len(set(values)) > 1:
            yield Difference(name, values)


def trainer_settings(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Configuration key -> `trainer.<key>` -> value, in launch order."""
    found = {spec.config_key: spec.trainer for spec in reversed(experiment.specs)}
    return {key: flatten(found[key].model_dump(mode="json"), "trainer.") for key in reversed(found)}


def _searched(experiments: Sequence[Experiment]) -> Iterable[Difference]:
    """Hyperparameters. A searched one is equal where the configurations that all have are equal one by one: more
    configurations of the same list are no other search."""
    tables = [list(trainer_settings(experiment).values()) for experiment in experiments]
    common = min(len(table) for table in tables)
    for name in dict.fromkeys(name for table in tables for name in table[0]):
        columns = [[row.get(name) for row in table] for table in tables]
        if any(column[:common] != columns[0][:common] for column in columns):
            yield Difference(name, tuple(_values(column) for column in columns))


def _values(column: Sequence[Any]) -> str:
    distinct = list(dict.fromkeys(column))
    numbers = [value for value in distinct if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(distinct) > SHOWN_VALUES and len(numbers) == len(distinct):
        return f"{setting(min(numbers))} to {setting(max(numbers))} ({len(distinct)} values)"
    shown = ", ".join(setting(value) for value in distinct[:SHOWN_VALUES])
    return f"{shown}, ..." if len(distinct) > SHOWN_VALUES else shown


def _arms(experiment: Experiment) -> dict[str, ArmConfig]:
    return {arm.name: arm for spec in experiment.specs for arm in spec.arms}


def _other_settings(experiment: Experiment, common: Container[str]) -> dict[str, str]:
    """Arms that not all have are named, and their own settings left out: nothing is there to differ from."""
    names = {row.get("reference", row["name"]): row["name"] for row in experiment.plan.get("gems", [])}
    arms = _arms(experiment)
    facts = {"arms": ", ".join(sorted(arms)), "sweep.label": experiment.label or "none"}
    for name in sorted(arms):
        facts |= _arm(arms[name], names) if name in common else {}
    configurations = list(dict.fromkeys(spec.config_key for spec in experiment.specs))
    seeds = sorted({member.seed for spec in experiment.specs for member in spec.members})
    facts["sweep.trials"] = str(len(configurations))
    facts["seeds"] = _list_of(seeds)
    machine = experiment.specs[0].machine.model_dump()
    facts |= {f"sweep.{name}": str(machine[name]) for name in ("precision", "capture")}
    rules = (experiment.plan.get("verdict") or {}).get("rules") or {}
    facts |= {f"analysis.{name}": setting(tuple(v) if isinstance(v, list) else v) for name, v in rules.items()}
    return facts


def _list_of(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 6 else f"{numbers[0]} to {numbers[-1]} ({len(numbers)})"


def _arm(arm: ArmConfig, names: Mapping[str, str]) -> dict[str, str]:
    facts = {f"arms.{arm.name}.{names.get(gem, gem)}": _mode(config) for gem, config in arm.gems.items()}
    return {**facts, f"arms.{arm.name}.features_off": ", ".join(arm.features_off) or "none"}


def _mode(config: GemConfig) -> str:
    scale = f" x {setting(config.coefficient)}" if config.coefficient is not None else ""
    return f"wired at {setting(config.dose)}" if config.mode == "wired" else f"{config.mode}{scale}"


def _code(experiment: Experiment) -> dict[str, str]:
    """Where the trials ran, each start and resume counted; where none is recorded, where the sweep was planned."""
    found = [entry for spec in experiment.specs for entry in _environments(experiment, spec.key)]
    found = found or [experiment.plan.get("versions") or {}]
    flat = [flatten({name: value for name, value in each.items() if name != "torch_cpu"}, "") for each in found]
    facts = {}
    for name in dict.fromkeys(name for each in flat for name in each):
        counts = Counter(_short(name, each.get(name)) for each in flat)
        facts[name] = counts.most_common(1)[0][0] if len(counts) == 1 else _mixed(counts)
    for row in experiment.plan.get("gems", []):
        digest = str(row.get("sha256") or "")
        facts[f"gem {row['name']}"] = f"sha256 {digest[:16]}" if digest else "of this package"
    return facts


def _environments(experiment: Experiment, key: str) -> list[Mapping[str, Any]]:
    try:
        trial = read_trial(experiment.path, key)
    except RecordError:
        return []
    return [trial["environment"], *(resume["environment"] for resume in trial.get("resumed", []))]


def _short(name: str, value: Any) -> str:
    """A commit by twelve digits, with the mark of changed files."""
    if value is None:
        return ABSENT
    text = str(value)
    return text[:12] + text[40:] if name == "commit" else text


def _mixed(counts: Counter[str]) -> str:
    return "; ".join(f"{value} ({count} starts)" for value, count in counts.most_common())


def _data(experiment: Experiment) -> dict[str, str]:
    data = experiment.plan.get("data") or {}
    facts = {"sha256": str(data.get("sha256") or NOT_RECORDED)[:16], "symbols": ", ".join(data.get("symbols", []))}
    facts["bars a year"] = f"{data['periods_per_year']:.5g}" if "periods_per_year" in data else NOT_RECORDED
    config = experiment.specs[0].data.model_dump(mode="json")
    facts |= {f"data.{name}": setting(value) or "all" for name, value in flatten(config, "").items()}
    for row in experiment.plan.get("folds", []):
        facts[f"fold {row['fold']} {row['span']}"] = f"{row['start_time'][:10]} to {row['stop_time'][:10]}"
    if hold := experiment.plan.get("holdout"):
        facts["hold-out"] = f"{hold['start_time'][:10]} to {hold['stop_time'][:10]}"
    return facts
