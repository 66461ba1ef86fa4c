"""What may be compared in two experiments: is the yardstick one, which runs are pairs, how many make it equal n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.differences import trainer_settings
from analysis.frames import FINISHED
from analysis.load import Experiment
from trainer.config import canonical_json

YARDSTICK = ("trainer.score_epochs", "trainer.market.")  # settings that Sharpe ratios are measured with
SAME_FREQUENCY = 1.25  # largest ratio of bars a year that holidays and calendars explain


def incomparable(one: Experiment, two: Experiment) -> tuple[str, ...]:
    """Why Sharpe ratios of the two are not measured on the same bars; empty when they are."""
    first, second = (each.plan.get("data") or {} for each in (one, two))
    if not first.get("sha256") or not second.get("sha256"):
        return ("the plan of one of them is lost, so its data are not known",)
    reasons = []
    years = sorted(float(each.get("periods_per_year") or 252.0) for each in (first, second))
    if years[1] > SAME_FREQUENCY * years[0]:
        counts = " and ".join(f"{each.periods_per_year:.4g}" for each in (one, two))
        reasons.append(
            f"bar frequency: {counts} bars a year; the square root of time makes ratios of different bars comparable "
            f"only without autocorrelation, and costs are paid per bar"
        )
    if first["sha256"] != second["sha256"]:
        reasons.append(f"data: sha256 {first['sha256'][:12]} and {second['sha256'][:12]}")
    if _judge_spans(one) != _judge_spans(two):
        reasons.append(f"judge spans: {_told(one)} and {_told(two)}")
    return tuple(reasons)


def _judge_spans(experiment: Experiment) -> list[tuple[int, str, str]]:
    rows = [row for row in experiment.plan.get("folds", []) if row["span"] == "judge"]
    return sorted((int(row["fold"]), str(row["start_time"]), str(row["stop_time"])) for row in rows)


def _told(experiment: Experiment) -> str:
    return ", ".join(f"{start[:10]} to {stop[:10]}" for _, start, stop in _judge_spans(experiment)) or "none"


def changed_settings(one: Experiment, two: Experiment) -> tuple[str, ...]:
    """Hyperparameters with one value in all configurations of each, and not the same one in both."""
    tables = [list(trainer_settings(each).values()) for each in (one, two)]
    names = [name for name in tables[0][0] if name in tables[1][0]]
    fixed = [name for name in names if all(_constant(table, name) for table in tables)]
    return tuple(name for name in fixed if tables[0][0][name] != tables[1][0][name])


def _constant(table: Sequence[dict], name: str) -> bool:
    return all(row[name] == table[0][name] for row in table)


@dataclass(frozen=True)
class Evidence:
    """The base runs of an experiment that count: configurations up to the first that still runs, in launch order, each
    with its scored seeds. `unfinished`: configurations left out since they may still change; `lost`: those without a
    score, whose trial failed for good."""

    runs: dict[str, tuple[int, ...]]
    unfinished: int
    lost: tuple[str, ...]


def evidence(experiment: Experiment) -> Evidence:
    """Stopping at the first configuration that still runs keeps fast trials from being chosen for their speed."""
    members = experiment.members[experiment.members["arm"] == "base"]
    order = members.groupby("config")["launch"].min().sort_values(kind="stable").index
    final = members["trial_status"].isin([*FINISHED, "failed"]).groupby(members["config"]).all()
    names = list(order)
    stop = next((place for place, name in enumerate(names) if not final[name]), len(names))
    scores = experiment.scores[(experiment.scores["arm"] == "base") & experiment.scores["sharpe"].notna()]
    seeds = {name: tuple(int(seed) for seed in own["seed"]) for name, own in scores.groupby("config", sort=False)}
    runs = {name: seeds[name] for name in names[:stop] if name in seeds}
    return Evidence(runs, len(names) - stop, tuple(name for name in names[:stop] if name not in seeds))


@dataclass(frozen=True)
class Pairs:
    """configs: (configuration of the first, of the second), in launch order; seeds: common to all of them. changed:
    settings in which each pair differs. why: the reason when there are no pairs, "" when there are."""

    configs: tuple[tuple[str, str], ...]
    seeds: tuple[int, ...]
    changed: tuple[str, ...]
    why: str = ""


def pair(one: Experiment, two: Experiment) -> Pairs:
    """Runs that share everything but `changed`: searched values, seeds, folds, bars, judge spans.

    Equal configurations pair, and so do those that differ only in settings that the whole second experiment changed:
    then the difference is the effect of that change.
    """
    changed = changed_settings(one, two)
    if reasons := incomparable(one, two):
        return Pairs((), (), changed, "; ".join(reasons))
    first, second = evidence(one).runs, evidence(two).runs
    signatures = {_signature(row, changed): key for key, row in trainer_settings(two).items() if key in second}
    table = trainer_settings(one)
    matched = [(key, signatures.get(_signature(table[key], changed), "")) for key in first]
    configs = [(a, b) for a, b in matched if b]
    if not first or not second:
        return Pairs((), (), changed, "no configuration of one of them has a score yet")
    if not configs:
        return Pairs((), (), changed, f"their configurations differ in {_searched_apart(one, two, changed)}")
    common = [seed for seed in first[configs[0][0]] if all(seed in first[a] and seed in second[b] for a, b in configs)]
    if not common:
        return Pairs((), (), changed, "no seed is scored in every configuration of both")
    return Pairs(tuple(configs), tuple(common), changed)


def _signature(settings: dict, changed: Sequence[str]) -> str:
    return canonical_json({name: value for name, value in settings.items() if name not in changed})


def _searched_apart(one: Experiment, two: Experiment, changed: Sequence[str]) -> str:
    tables = [pd.DataFrame.from_dict(trainer_settings(each), orient="index").astype(str) for each in (one, two)]
    names = [name for name in tables[0] if set(tables[0][name]) != set(tables[1].get(name, ())) and name not in changed]
    return ", ".join(names) or "how their searched values are combined"


def restricted(experiment: Experiment, configs: Sequence[str], seeds: Sequence[int]) -> Experiment:
    """The base runs of these configurations and seeds alone; trials and plan stay whole."""
    parts = {}
    for name in ("members", "scores", "epochs"):
        frame = getattr(experiment, name)
        wanted = frame["config"].isin(configs) & (frame["arm"] == "base") & frame["seed"].isin(seeds)
        parts[name] = frame[wanted]
    order = {config: place for place, config in enumerate(configs)}
    parts["scores"] = parts["scores"].sort_values("config", key=lambda column: column.map(order), kind="stable")
    return replace(experiment, **parts)


def other_yardsticks(changed: Sequence[str]) -> tuple[str, ...]:
    """Changed settings that alter what a Sharpe ratio measures, not only what the agent does."""
    return tuple(name for name in changed if name.startswith(YARDSTICK))
