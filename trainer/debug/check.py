"""A stored trial again, in this process and without Ray: every stored number is compared as it is recomputed.

    result = check("experiments/mine", "0a1b2c3d4e-b0")
    print("\\n".join(result.lines()))

All columns are compared but `clock/*`, which hold wall time; so are the tensors of the checkpoints that were kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from trainer.config import TrialSpec
from trainer.difference import Difference, compare_columns, compare_tensors
from trainer.provenance import environment, environment_differences
from trainer.record import (
    Checkpoint,
    RecordError,
    Status,
    check_trial,
    decode_columns,
    encode_columns,
    list_checkpoints,
    read_checkpoint,
    read_failed,
    read_part,
    read_plan,
    read_trial,
    stored_epochs,
    trial_folder,
    trial_status,
)
from trainer.reporter import EpochRecord, Reporter, State

Body = Callable[[TrialSpec, Reporter], None]


@dataclass
class ReplayResult:
    """What a replay found. `numbers` counts the stored numbers that were compared, checkpoints apart.

    `environment`: what differs from the run that was stored. `problems`: what is stored but could not be compared.
    """

    key: str
    status: Status
    planned: int  # the last epoch of the trial, had it run to its end
    cause: str = ""  # of a failed trial
    epochs: list[int] = field(default_factory=list)
    numbers: int = 0
    checkpoint_epochs: list[int] = field(default_factory=list)
    checkpoint_numbers: int = 0
    differences: list[Difference] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def identical(self) -> bool:
        """Whether something was compared and every compared value is the same."""
        return bool(self.epochs) and not self.differences

    @property
    def first(self) -> Difference | None:
        return self.differences[0] if self.differences else None

    def lines(self) -> list[str]:
        """For the terminal: what differs around the trial, what could not be compared, then the finding."""
        lines = [f"differs from the stored run: {line}" for line in self.environment]
        lines += [f"not compared: {line}" for line in self.problems]
        if self.status != "done":
            state = f"failed ({self.cause})" if self.status == "failed" else f"unfinished ({self.status})"
            lines.append(f"the trial is {state}: compared is what it recorded, of epochs 0..{self.planned}")
        return lines + self._finding()

    def _finding(self) -> list[str]:
        if not self.epochs and not self.differences:
            return ["nothing was compared: no stored epoch could be read"]
        if not self.differences:
            tensors = f", {self.checkpoint_numbers} checkpoint values" if self.checkpoint_epochs else ""
            return [f"identical: epochs {_ranges(self.epochs)}, {self.numbers} numbers{tensors}"]
        lines = [f"first difference: {self.differences[0]}"]
        lines += [f"then: {difference}" for difference in self.differences[1:20]]
        more = len(self.differences) - 20
        lines += [f"and {more} more"] if more > 0 else []
        return [*lines, f"compared until then: {self.numbers} numbers"]


def _ranges(epochs: list[int]) -> str:
    """`0..3, 5, 7..9`"""
    runs: list[list[int]] = []
    for epoch in sorted(epochs):
        if runs and epoch == runs[-1][-1] + 1:
            runs[-1].append(epoch)
        else:
            runs.append([epoch])
    return ", ".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


class DebugReporter:
    """Reporter that compares a trial with what is stored of it and writes nothing.

    epochs: the last epoch to run, None for the last that is stored. stop_at_first: end the trial at a difference.
    """

    def __init__(
        self, experiment: Path | str, spec: TrialSpec, *, epochs: int | None = None, stop_at_first: bool = True
    ) -> None:
        self.experiment = Path(experiment)
        self.spec = spec
        self.stop_at_first = stop_at_first
        self.reached = -1
        stored = stored_epochs(experiment, spec.key)
        if not stored:
            raise RecordError(f"{trial_folder(experiment, spec.key)}: no epoch is recorded, so nothing can be compared")
        self.last = stored[-1] if epochs is None else min(epochs, stored[-1])
        self.checkpoints = list_checkpoints(trial_folder(experiment, spec.key) / "checkpoints")
        self.result = ReplayResult(spec.key, trial_status(experiment, spec.key), spec.trainer.epochs)
        if self.result.status == "failed":
            self.result.cause = read_failed(experiment, spec.key)["cause"]
        self.result.problems = check_trial(experiment, spec.key)

    def resume(self) -> Checkpoint | None:
        self.result.environment = [
            *_data_differences(self.experiment, self.spec),
            *_gem_differences(self.experiment),
            *_environment_differences(self.experiment, self.spec),
        ]
        return None

    def epoch(self, record: EpochRecord, state: State) -> bool:
        self.reached = record.epoch
        self._compare_columns(record)
        if not (self.stop_at_first and self.result.differences):
            self._compare_checkpoint(record, state)
        return record.epoch >= self.last or bool(self.stop_at_first and self.result.differences)

    def finish(self, summary: dict[str, Any]) -> None:
        """Nothing is left to compare: the summary is made of what the epochs hold."""

    def close(self) -> None:
        """After the trial: an epoch that is stored but was not reached is a difference."""
        if self.reached < self.last and not self.result.differences:
            missing = Difference(self.reached + 1, "the whole", "record", {}, (), "one", "none")
            self.result.differences.append(missing)

    def _compare_columns(self, record: EpochRecord) -> None:
        try:
            stored = decode_columns(read_part(self.experiment, self.spec.key, record.epoch))
        except RecordError:
            return  # named in the problems from the start
        new = decode_columns(encode_columns(record.columns))
        numbers, differences = compare_columns(record.epoch, stored, new, first_only=self.stop_at_first)
        self.result.epochs.append(record.epoch)
        self.result.numbers += numbers
        self.result.differences += differences

    def _compare_checkpoint(self, record: EpochRecord, state: State) -> None:
        path = self.checkpoints.get(record.epoch)
        if path is None:
            return
        try:
            stored = read_checkpoint(path, self.spec.key)
        except RecordError:
            return
        members = decode_columns(encode_columns(record.columns))
        numbers, differences = compare_tensors(record.epoch, stored.tensors, state().tensors, members)
        self.result.checkpoint_epochs.append(record.epoch)
        self.result.checkpoint_numbers += numbers
        self.result.differences += differences[:1] if self.stop_at_first else differences


def check(
    experiment: Path | str,
    key: str,
    *,
    epochs: int | None = None,
    stop_at_first: bool = True,
    body: Body | None = None,
) -> ReplayResult:
    """Run trial `key` of an experiment again from its stored specification and compare every stored number.

    epochs: the last epoch to run, None for all that are stored. stop_at_first: end at the first difference; otherwise
    collect them all. body: the trial body, `trainer.loop.run_trial` by default.
    Errors: `RecordError` when nothing is stored of the trial; whatever the trial itself raises.
    """
    spec = stored_spec(experiment, key)
    reporter = DebugReporter(experiment, spec, epochs=epochs, stop_at_first=stop_at_first)
    (body or _run_trial)(spec, reporter)
    reporter.close()
    return reporter.result


def _run_trial(spec: TrialSpec, reporter: Reporter) -> None:
    from trainer.loop import run_trial

    eager = spec.machine.model_copy(update={"capture": False})  # the same bits, and a debugger can look inside
    run_trial(spec.model_copy(update={"machine": eager}), reporter)


def stored_spec(experiment: Path | str, key: str) -> TrialSpec:
    """The specification in `trial.json`, or the plan's when that file is missing or damaged."""
    try:
        return TrialSpec.model_validate(read_trial(experiment, key)["spec"])
    except RecordError:
        plan = read_plan(experiment)
    specs = [spec for spec in plan["trials"] if spec["key"] == key]
    if not specs:
        known = ", ".join(spec["key"] for spec in plan["trials"][:5])
        raise RecordError(f"{experiment}: no trial {key!r}; the plan's trials are {known}, ...")
    return TrialSpec.model_validate(specs[0])


def _data_differences(experiment: Path, spec: TrialSpec) -> list[str]:
    """One line when the bars of today are not the bars of the plan."""
    try:
        stored = read_plan(experiment)["data"]["sha256"]
    except (RecordError, KeyError):
        return []
    from trainer.data.bars import load_bars

    options = spec.data.model_dump(exclude={"source", "folds"})
    present = load_bars(spec.data.source, **options).sha256
    return [] if present == stored else [f"data {spec.data.source}: sha256 {stored[:16]} then, {present[:16]} now"]


def _gem_differences(experiment: Path) -> list[str]:
    """A line for every gem whose file is no longer that of the plan."""
    try:
        gems = [gem for gem in read_plan(experiment).get("gems", []) if gem.get("sha256")]
    except RecordError:
        return []
    lines = []
    for gem in gems:
        path = Path(gem["reference"].rpartition(":")[0])
        present = sha256(path.read_bytes()).hexdigest() if path.is_file() else "absent"
        if present != gem["sha256"]:
            lines.append(f"gem {gem['name']} in {path}: sha256 {gem['sha256'][:16]} then, {present[:16]} now")
    return lines


def _environment_differences(experiment: Path, spec: TrialSpec) -> list[str]:
    """Where the trial ran, its resumes included, against where it runs now."""
    try:
        trial = read_trial(experiment, spec.key)
    except RecordError:
        return []
    present = environment(spec.machine.device, spec.machine.threads)
    lines = environment_differences(trial["environment"], present)
    for resume in trial["resumed"]:
        later = environment_differences(resume["environment"], present)
        lines += [f"after epoch {resume['from_epoch']}, {line}" for line in later if line not in lines]
    return lines
