"""An experiment folder as pandas frames: finished, running, or partly damaged. Reads files only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from analysis import frames
from analysis.pairs import pairs_frame
from analysis.purity import Purity, purity
from analysis.scores import score_runs
from trainer.config import TrialSpec
from trainer.record import (
    RecordError,
    read_done,
    read_epochs,
    read_failed,
    read_plan,
    read_timeline,
    read_trial,
    trial_folder,
    trial_keys,
    trial_status,
)

SERIES = ("returns/", "exposure/")
JUDGED = "returns/judge"


@dataclass(frozen=True, repr=False)
class Experiment:
    """Frames of one experiment. Sharpe ratios are annualised; norms and sizes are float64; clocks are seconds.

    trials: one row per planned trial in launch order. trial, config, block, launch; status (done, failed, running,
        waiting, damaged: finished, but a part is lost and a resume would repair it); cause and error of a failure;
        finished (time); epochs_planned, epochs_recorded; objective (IQM of the base members' validation Sharpe after
        the last epoch, failures at the floor), objective_ok (more than half of those members have status ok there;
        otherwise the number is mostly a convention and ranks last); sharpe, sharpe_var, sharpe_lo, sharpe_hi over the
        scores of its base seeds, sharpe_se (HAC, mean over the seeds that have one), seeds (how many are scored),
        frozen (base members), statuses (of its base seeds' scores) and validation_statuses (of its base members), as
        text with counts, "" where all are ok; seconds; config/<key> for every hyperparameter and config/data.<key>.
    members: one row per (trial, arm, seed, fold). status (ok, frozen, waiting: nothing recorded), frozen_at, epoch and
        updates (last recorded); judge_sharpe and judge_se of its own fold (mean over the scored epochs; a convention
        has no error), validation_sharpe and validation_status (last); a frozen member stands at the floor in both.
        train_sharpe, train_log_wealth and both of the untrained network; trial_status, cause.
    scores: one row per run = (config, arm, seed), all folds together; see `analysis.scores.score_runs`.
    epochs: the recorded columns, one row per member and epoch, without the return series; `remaining` (epochs still to
        come, int64) and `scored` (bool: among the last epochs that the score averages).
    windows: (trial, arm, seed, fold, config, epoch, span, timestamp, return, exposure), one row per evaluated bar;
        built when first used. return: simple, net, equal-weight mean over symbols. timestamp: UTC, of the bar's close.
    gradients: (trial, arm, seed, fold, config, epoch, component, slice, norm, zero, gate); zero is value, structural
        (the component cannot reach the slice: it was measured, never there), unmeasured (no number in this row), gated
        (exactly 0, and `gate` is closed at the end of the epoch) or exact.
    pairs: see `analysis.pairs.pairs_frame`; empty without wired arms.
    problems: every damaged or unreadable part, named; each costs its own rows only.
    """

    path: Path
    plan: Mapping[str, Any]
    specs: Sequence[TrialSpec]
    trials: pd.DataFrame
    members: pd.DataFrame
    scores: pd.DataFrame
    epochs: pd.DataFrame
    judge: pd.DataFrame  # returns of the judge span, one array per row of `epochs`
    timeline: pd.DatetimeIndex | None
    problems: Sequence[str] = field(default_factory=list)

    def __repr__(self) -> str:
        states = ", ".join(f"{count} {status}" for status, count in self.trials["status"].value_counts().items())
        damaged = f", {len(self.problems)} damaged parts" if self.problems else ""
        sizes = f"{len(self.members)} members, {len(self.scores)} runs, {len(self.epochs)} epoch rows"
        return f"Experiment({self.name!r}: {len(self.trials)} trials ({states}), {sizes}{damaged})"

    @property
    def name(self) -> str:
        return str(self.plan.get("name") or self.path.name)

    @property
    def label(self) -> str:
        """What the plan says about itself, such as "smoke, not evidence"; "" for a plain study."""
        return str(self.plan.get("label") or "")

    @property
    def periods_per_year(self) -> float:
        """Bars in a year, counted in the data."""
        return _periods_per_year(self.plan)

    @property
    def gems(self) -> list[str]:
        """Names of the gems with a recorded size, in the order of the records."""
        suffix = "/size"
        return [
            name[4 : -len(suffix)] for name in self.epochs.columns if name.startswith("gem/") and name.endswith(suffix)
        ]

    def may_duplicate(self, gem: str) -> tuple[str, ...]:
        """Existing features that the gem's author says it may only repeat; empty for a lost plan."""
        found = [row["may_duplicate"] for row in self.plan.get("gems", []) if row["name"] == gem]
        return tuple(found[0]) if found else ()

    @property
    def spans(self) -> pd.DataFrame:
        """fold, span, start, stop (positions in `timeline`, half open)."""
        return pd.DataFrame(self.plan.get("folds", []), columns=["fold", "span", "start", "stop"])

    @cached_property
    def pairs(self) -> pd.DataFrame:
        names = {row["reference"]: row["name"] for row in self.plan.get("gems", []) if "reference" in row}
        return pairs_frame(self.specs, self.scores, self.members, names)

    @cached_property
    def purity(self) -> Purity:
        return purity(self.specs, self.epochs)

    @cached_property
    def gradients(self) -> pd.DataFrame:
        return frames.gradients_frame(self.epochs)

    @cached_property
    def windows(self) -> pd.DataFrame:
        parts = [
            read_epochs(self.path, key, _is_series_or_key)[0] for key in self.trials["trial"] if self._started(key)
        ]
        rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*frames.MEMBER, "epoch"])
        return frames.windows_frame(rows, self.spans, self.timeline)

    def _started(self, key: str) -> bool:
        return bool((self.epochs["trial"] == key).any()) if len(self.epochs) else False


def load(path: Path | str) -> Experiment:
    """Read an experiment folder. Raises RecordError naming the path when it holds no experiment."""
    folder = Path(path)
    plan, specs, problems = _read_specs(folder)
    states = {spec.key: _state(folder, spec.key, problems) for spec in specs}
    epochs, judge = _read_all_epochs(folder, specs, problems)
    members = frames.members_frame(specs, states, epochs)
    scores = score_runs(members, epochs, judge, _periods_per_year(plan))
    return Experiment(
        path=folder, plan=plan, specs=tuple(specs), members=members, scores=scores, epochs=epochs, judge=judge,
        trials=frames.trials_frame(specs, states, members, scores), timeline=_timeline(folder, problems),
        problems=tuple(problems),
    )  # fmt: skip


def _read_specs(folder: Path) -> tuple[dict[str, Any], list[TrialSpec], list[str]]:
    """The plan and its trials; from the trials' own records when the plan is damaged."""
    problems: list[str] = []
    plan: dict[str, Any] = {}
    try:
        plan = read_plan(folder)
        raw = {entry["key"]: entry for entry in plan["trials"]}
    except (RecordError, KeyError, TypeError) as error:
        if not trial_keys(folder):
            raise
        problems.append(f"{error}; trials are listed from their own records, a year counts as 252 bars")
        raw = {}
        for key in trial_keys(folder):
            try:
                raw[key] = read_trial(folder, key)["spec"]
            except RecordError as damage:
                problems.append(str(damage))
    specs = []
    for key, entry in raw.items():
        try:
            specs.append(TrialSpec.model_validate(entry))
        except ValidationError as error:
            problems.append(
                f"{folder / 'plan.json'}: trial {key} is not understood by this version ({error.error_count()} errors)"
            )
    if not specs:
        raise RecordError(f"{folder}: no trial can be read; {problems[0] if problems else 'the plan is empty'}")
    return plan, sorted(specs, key=lambda spec: spec.launch), problems


def _state(folder: Path, key: str, problems: list[str]) -> dict[str, str]:
    status = str(trial_status(folder, key))
    state = {"status": status, "cause": "", "error": "", "finished": ""}
    try:
        if status == "failed":
            failed = read_failed(folder, key)
            state |= {"cause": str(failed["cause"]), "error": str(failed["error"])}
        elif (trial_folder(folder, key) / "done.json").exists():
            # The store calls a finished trial with a lost part waiting: a resume repairs it. Its other rows count.
            state["finished"] = str(read_done(folder, key)["finished"])
            state["status"] = "damaged" if status == "waiting" else status
    except (RecordError, KeyError) as error:
        problems.append(_relative(folder, str(error)))
    return state


def _read_all_epochs(
    folder: Path, specs: Sequence[TrialSpec], problems: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = []
    for spec in specs:
        try:
            frame, found = read_epochs(folder, spec.key, _is_wanted)
        except RecordError as error:
            frame, found = pd.DataFrame(), [str(error)]
        problems += [_relative(folder, problem) for problem in found]
        if len(frame):
            left = spec.trainer.epochs - frame["epoch"].astype("int64")
            parts.append(frame.assign(remaining=left, scored=left < spec.trainer.score_epochs))
    if not parts:
        columns = [*frames.MEMBER, "config", "epoch", "status", "remaining", "scored"]
        return pd.DataFrame(columns=columns), pd.DataFrame(columns=["returns"])
    epochs = pd.concat(parts, ignore_index=True)
    judge = pd.DataFrame({"returns": _judge_returns(epochs)}, index=epochs.index)
    return epochs[[name for name in epochs.columns if not name.startswith(SERIES)]].copy(), judge


def _judge_returns(epochs: pd.DataFrame) -> list[np.ndarray]:
    empty = np.empty(0)
    if JUDGED not in epochs.columns:
        return [empty] * len(epochs)
    return [value if isinstance(value, np.ndarray) else empty for value in epochs[JUDGED]]


def _is_wanted(column: str) -> bool:
    return not column.startswith(SERIES) or column == JUDGED


def _is_series_or_key(column: str) -> bool:
    return column.startswith(SERIES) or column in (*frames.MEMBER, "config", "epoch")


def _periods_per_year(plan: Mapping[str, Any]) -> float:
    return float(plan.get("data", {}).get("periods_per_year") or 252.0)


def _timeline(folder: Path, problems: list[str]) -> pd.DatetimeIndex | None:
    try:
        return read_timeline(folder)
    except RecordError as error:
        problems.append(f"{_relative(folder, str(error))}; return series stay without dates")
        return None


def _relative(folder: Path, problem: str) -> str:
    return problem.replace(f"{folder}/", "")
