"""How far an experiment is, from its files: for whoever looks at a sweep from another terminal.

Nothing is locked, written or asked of the sweep's process. A part is read once, however often one looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import unit_sizes
from analysis.interval import mean_interval
from analysis.rules import VerdictRules, planned_rules
from analysis.statistics import iqm_interval
from trainer.config import TrialSpec
from trainer.record import RecordError, read_failed, read_plan, trial_folder, trial_status
from trainer.record.lock import is_locked
from trainer.record.parts import list_parts, read_table
from trainer.sharpe import FLOOR, iqm

VALIDATION = "eval/validation/sharpe"
PLAIN = ("trial", "config", "arm", "seed", "fold", "epoch", "status", "watchdog", "clock/seconds", VALIDATION)
RECENT = 5  # epochs that the speed of a trial is taken from
DRAWS = 2_000  # of the bootstrap: enough for two digits


@dataclass(frozen=True)
class TrialProgress:
    """`epoch`: last recorded, -1 for none. iqm: of the base members' validation Sharpe at that epoch, failures at the
    floor; best, low, high: the largest so far (selected by looking) with the 95 % interval of other seeds on these
    folds, and its epoch. seconds: of one recent epoch."""

    trial: str
    config: str
    launch: int
    status: str
    epoch: int
    epochs: int
    members: int
    frozen: int
    iqm: float
    best: float
    low: float
    high: float
    best_epoch: int
    seconds: float
    alarms: tuple[str, ...]
    failure: str

    @property
    def left(self) -> int:
        """Epochs still to train."""
        return self.epochs - max(self.epoch, 0)


@dataclass(frozen=True)
class SizeSoFar:
    """Geometric mean over `n` configurations with a 95 % t interval: running trials as they stand, no look."""

    gem: str
    n: int
    size: float
    low: float
    high: float


@dataclass(frozen=True)
class State:
    """An experiment at one moment. held: a process runs or changes it. seconds_left: None when nothing runs, or nothing
    is known of its speed."""

    name: str
    path: str
    label: str
    held: bool
    trials: tuple[TrialProgress, ...]
    sizes: tuple[SizeSoFar, ...]
    seconds_left: float | None
    problems: tuple[str, ...]

    @property
    def ended(self) -> bool:
        """Every trial is done or failed, and nobody is adding to the experiment."""
        return not self.held and all(trial.status in ("done", "failed") for trial in self.trials)

    @property
    def idle(self) -> bool:
        """No process works on it."""
        return not self.held and all(trial.status != "running" for trial in self.trials)

    def count(self, status: str) -> int:
        return sum(trial.status == status for trial in self.trials)


class Watch:
    """Looks at an experiment folder again and again. Errors: RecordError when it holds no plan."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._rows: dict[Path, pd.DataFrame] = {}  # by part
        self._problems: dict[Path, str] = {}
        self._found: dict[str, tuple[tuple[Path, ...], TrialProgress]] = {}
        self._most = 1  # trials seen running at a time

    def look(self) -> State:
        """The state now."""
        plan, specs, rules = _read(self.folder)
        trials, frames = [], []
        for spec in specs:
            frame, parts = self._frame(spec)
            trials.append(self._progress(spec, frame, parts))
            frames.append(frame.assign(launch=spec.launch))
        held = is_locked(self.folder / "lock")
        self._most = max(self._most, sum(trial.status == "running" for trial in trials))
        return State(
            name=str(plan.get("name") or self.folder.name), path=str(self.folder), label=str(plan.get("label") or ""),
            held=held, trials=tuple(trials), sizes=tuple(_sizes(rules, frames)),
            seconds_left=_seconds_left(trials, self._most), problems=tuple(self._problems.values()),
        )  # fmt: skip

    def _frame(self, spec: TrialSpec) -> tuple[pd.DataFrame, tuple[Path, ...]]:
        """The few columns that are shown, a row a member and epoch, and the parts they are from."""
        paths = [found[0] for found in list_parts(trial_folder(self.folder, spec.key) / "epochs").values()]
        for path in paths:
            if path not in self._rows and path not in self._problems:
                try:
                    self._rows[path] = read_table(path, spec.key, _wanted).to_pandas()
                except RecordError as error:
                    if path.exists():  # else a resume set it aside between the listing and now
                        self._problems[path] = str(error).replace(f"{self.folder}/", "")
        read = [self._rows[path] for path in paths if path in self._rows]
        return pd.concat(read, ignore_index=True) if read else pd.DataFrame(), tuple(paths)

    def _progress(self, spec: TrialSpec, frame: pd.DataFrame, parts: tuple[Path, ...]) -> TrialProgress:
        status, failure = _status(self.folder, spec.key)
        known = self._found.get(spec.key)
        if known and known[0] == parts and known[1].status == status:
            return known[1]
        found = _progress(spec, frame, status, failure)
        self._found[spec.key] = parts, found
        return found


def _read(folder: Path) -> tuple[dict[str, Any], list[TrialSpec], VerdictRules]:
    """The plan, its trials in launch order, and the rules of its verdict."""
    plan = read_plan(folder)
    try:
        specs = [TrialSpec.model_validate(entry) for entry in plan["trials"]]
        return plan, sorted(specs, key=lambda spec: spec.launch), planned_rules(plan)
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise RecordError(
            f"{folder / 'plan.json'}: not understood by this version ({reason}); use the gemsweep that wrote it"
        ) from None


def _wanted(column: str) -> bool:
    return column in PLAIN or (column.startswith("gem/") and column.count("/") == 2)


def _status(folder: Path, key: str) -> tuple[str, str]:
    """Status, and why a trial failed."""
    status = str(trial_status(folder, key))
    if status != "failed":
        return status, ""
    try:
        failed = read_failed(folder, key)
    except RecordError as error:
        return status, str(error)
    return status, f"{failed['cause']}: {failed['error']}"


def _progress(spec: TrialSpec, frame: pd.DataFrame, status: str, failure: str) -> TrialProgress:
    by_epoch = {int(epoch): _scores(rows) for epoch, rows in frame.groupby("epoch")} if len(frame) else {}
    values = {epoch: iqm(scores.to_numpy(float)) for epoch, scores in by_epoch.items() if len(scores)}
    last, nan = max(by_epoch, default=-1), float("nan")
    trained = {epoch: value for epoch, value in values.items() if epoch > 0} or values
    best = max(trained, key=lambda epoch: trained[epoch], default=-1)
    low, high = _interval(by_epoch[best]) if best in by_epoch else (nan, nan)
    now = frame[frame["epoch"] == last] if len(frame) else frame
    return TrialProgress(
        trial=spec.key, config=spec.config_key, launch=spec.launch, status=status, epoch=last,
        epochs=spec.trainer.epochs, members=len(spec.members),
        frozen=int(now["status"].eq("frozen").sum()) if len(now) else 0, iqm=values.get(last, nan),
        best=values.get(best, nan), low=low, high=high, best_epoch=best, seconds=_epoch_seconds(frame),
        alarms=tuple(_alarms(frame)), failure=failure,
    )  # fmt: skip


def _scores(rows: pd.DataFrame) -> pd.Series:
    """Validation Sharpe of the base members (of all, where the trial has none), failures at the floor, by fold."""
    base = rows[rows["arm"] == "base"]
    base = base if len(base) else rows
    if VALIDATION not in base:
        return pd.Series(dtype=float)
    return base.set_index("fold")[VALIDATION].where(base["status"].eq("ok").to_numpy(), FLOOR).fillna(FLOOR)


def _interval(scores: pd.Series) -> tuple[float, float]:
    """95 % of the IQM when seeds are drawn again within each fold; NaN with one seed."""
    try:
        found = iqm_interval(scores.to_numpy(float), strata=scores.index.to_numpy(), draws=DRAWS)
    except ValueError:
        return float("nan"), float("nan")
    return found.low, found.high


def _epoch_seconds(frame: pd.DataFrame) -> float:
    if "clock/seconds" not in frame:
        return float("nan")
    seconds = frame[frame["epoch"] > 0].groupby("epoch")["clock/seconds"].max()
    return float(seconds.tail(RECENT).median())


def _alarms(frame: pd.DataFrame) -> Iterable[str]:
    """Each alarm of the watchdog, with the runs that have it and its first epoch."""
    if "watchdog" not in frame:
        return
    rows = frame[frame["watchdog"].fillna("") != ""]
    each = rows.assign(text=rows["watchdog"].str.split("; ")).explode("text")
    for text, own in each.groupby("text", sort=True):
        runs = own.groupby(["arm", "seed", "fold"]).ngroups
        yield f"{text} in {runs} of {frame.groupby(['arm', 'seed', 'fold']).ngroups} members, first at epoch " + str(
            int(own["epoch"].min())
        )


def _sizes(rules: VerdictRules, frames: list[pd.DataFrame]) -> Iterable[SizeSoFar]:
    """Gem sizes over the base members, the last recorded epochs of each trial counting as its last."""
    recorded = [frame for frame in frames if len(frame)]
    if not recorded:
        return
    rows = pd.concat(recorded, ignore_index=True)
    rows = rows[rows["arm"] == "base"].assign(final=True, absent="")
    rows["remaining"] = rows.groupby("trial")["epoch"].transform("max") - rows["epoch"]
    for gem in (name.split("/")[1] for name in rows.columns if name.startswith("gem/") and name.endswith("/size")):
        names = {f"gem/{gem}/{part}": part for part in ("size", "value", "mode")}
        units, _ = unit_sizes(rows.rename(columns=names), rules)
        logs = units["log10_size"].to_numpy(float)
        if len(logs) > 1:
            low, mean, high = (float(10.0**value) for value in mean_interval(logs, 0.025))
            yield SizeSoFar(gem, len(logs), mean, low, high)
        elif len(logs):
            yield SizeSoFar(gem, 1, float(10.0 ** logs[0]), float("nan"), float("nan"))


def _seconds_left(trials: list[TrialProgress], lanes: int) -> float | None:
    """At the recent speed of each trial, or of the median trial where it has none, `lanes` trials at a time."""
    running = [trial for trial in trials if trial.status == "running"]
    open_ = [trial for trial in trials if trial.status in ("running", "waiting")]
    speeds = [trial.seconds for trial in trials if np.isfinite(trial.seconds)]
    if not running or not speeds:
        return None
    usual = float(np.median(speeds))
    work = {trial.trial: trial.left * (trial.seconds if np.isfinite(trial.seconds) else usual) for trial in open_}
    return max(sum(work.values()) / lanes, max(work[trial.trial] for trial in running))
