"""The one writer of a trial's folder.

Order within an epoch: checkpoint, log, part. A crash in between costs the repeat of an epoch that was not recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trainer.config import TrialSpec
from trainer.provenance import environment
from trainer.record.checkpoints import (
    Checkpoint,
    list_checkpoints,
    prune_checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from trainer.record.files import (
    ASIDE,
    DAMAGED,
    SCHEMA_VERSION,
    DamagedFile,
    RecordError,
    read_json,
    remove_temporary,
    set_aside,
    write_json,
)
from trainer.record.folder import check_trial, trial_folder, trial_status
from trainer.record.lock import TrialLock
from trainer.record.parts import Column, list_parts, read_table, write_part

Cause = Literal["member", "pack", "stopped"]


class TrialFinished(RecordError):
    """The trial is complete and undamaged; there is nothing to resume."""


class DamagedRecordWarning(UserWarning):
    """A file of a trial was damaged and set aside; what it recorded is computed again."""


class TrialStore:
    """Writes one trial under its lock, from construction to `close` (or the end of a `with` block).

    Errors: `TrialLocked` when another process writes the trial; `RecordError` when the folder holds another trial.
    """

    def __init__(self, experiment: Path | str, spec: TrialSpec) -> None:
        self.spec = spec
        self.key = spec.key
        self.experiment = Path(experiment)
        self.folder = trial_folder(experiment, spec.key)
        self.epochs = self.folder / "epochs"
        self.checkpoints = self.folder / "checkpoints"
        self.last_epoch = -1
        try:
            self.epochs.mkdir(parents=True, exist_ok=True)
            self.checkpoints.mkdir(exist_ok=True)
        except OSError as error:
            raise RecordError(f"{self.folder}: cannot be created ({error.strerror or error})") from error
        self._lock = TrialLock(self.folder / "lock")

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the lock back; nothing is buffered."""
        self._lock.release()

    def resume(self) -> Checkpoint | None:
        """Tidy the folder and return the newest checkpoint e that verifies, parts 0..e being complete; else None.

        Damaged files are renamed `*.damaged`, parts beyond e `*.aside`; `last_epoch` becomes e (-1: fresh start).
        """
        self._refuse_finished()
        for folder in (self.folder, self.epochs, self.checkpoints):
            remove_temporary(folder)
        checkpoint = self._newest_checkpoint(self._verified_epochs())
        self.last_epoch = checkpoint.epoch if checkpoint else -1
        for epoch, paths in list_parts(self.epochs).items():
            if epoch > self.last_epoch:
                for path in paths:
                    self._set_aside(path, ASIDE, f"{path}: no checkpoint reaches this epoch, which is computed again")
        for epoch, path in list_checkpoints(self.checkpoints).items():
            if epoch > self.last_epoch:  # written before a part that never came, or useless without its parts
                path.unlink()
        self._forget_failure()
        self._write_trial()
        return checkpoint

    def _refuse_finished(self) -> None:
        done = self.folder / "done.json"
        if not done.exists():
            return
        if trial_status(self.experiment, self.key) == "done" and not check_trial(self.experiment, self.key):
            raise TrialFinished(f"{self.folder}: is finished; run another trial or delete this folder")
        self._set_aside(done, ASIDE, f"{self.folder}: the finished trial is damaged and is completed again")

    def _verified_epochs(self) -> int:
        """The largest e such that the parts 0..e all verify, -1 for none."""
        good = set()
        for epoch, paths in list_parts(self.epochs).items():
            for path in paths:
                try:
                    read_table(path, self.key, columns=lambda name: False)
                except DamagedFile as error:
                    self._set_aside(path, DAMAGED, str(error))
                    continue
                if epoch in good:
                    self._set_aside(path, ASIDE, f"{path}: a second part for this epoch")
                good.add(epoch)
        return next(epoch for epoch in range(len(good) + 1) if epoch not in good) - 1

    def _newest_checkpoint(self, last: int) -> Checkpoint | None:
        for epoch, path in reversed(list_checkpoints(self.checkpoints).items()):
            if epoch <= last:
                try:
                    return read_checkpoint(path, self.key)
                except DamagedFile as error:
                    self._set_aside(path, DAMAGED, str(error))
        return None

    def _set_aside(self, path: Path, suffix: str, why: str) -> None:
        message = f"{why}; renamed {set_aside(path, suffix).name}"
        self.log([f"# {message}"])
        warnings.warn(message, DamagedRecordWarning, stacklevel=4)

    def _forget_failure(self) -> None:
        path = self.folder / "failed.json"
        if path.exists():
            try:
                failed = read_json(path)
                self.log([f"# retried after {failed['cause']} failure: {failed['error']}"])
            except RecordError:
                self.log(["# retried after a failure whose record is damaged"])
            path.unlink()

    def _write_trial(self) -> None:
        """Record this start: the first one whole, later ones in `resumed`."""
        path = self.folder / "trial.json"
        started = {
            "started": _now(),
            "environment": environment(self.spec.machine.device, self.spec.machine.threads),
        }
        spec = self.spec.model_dump(mode="json")
        trial: dict[str, Any] = {"schema": SCHEMA_VERSION, "key": self.key, "spec": spec, **started, "resumed": []}
        if path.exists():
            try:
                trial = read_json(path)
            except DamagedFile as error:
                self._set_aside(path, DAMAGED, str(error))
            if trial["spec"] != spec:
                raise RecordError(
                    f"{path}: holds another specification of {self.key}; choose another experiment folder"
                )
            trial["resumed"].append({**started, "from_epoch": self.last_epoch})
            self.log([f"# resumed after epoch {self.last_epoch}"])
        write_json(path, trial)

    def write_epoch(
        self, epoch: int, columns: Mapping[str, Column], checkpoint: Checkpoint, lines: Iterable[str] = ()
    ) -> Path:
        """Record one epoch; epochs must follow each other. Returns the path of the part."""
        if epoch != self.last_epoch + 1 or checkpoint.epoch != epoch:
            raise RecordError(
                f"{self.folder}: epoch {epoch} with the checkpoint of epoch {checkpoint.epoch} "
                f"cannot follow epoch {self.last_epoch}"
            )
        write_checkpoint(self.checkpoints, self.key, checkpoint)
        prune_checkpoints(self.checkpoints)
        self.log(lines)
        path = write_part(self.epochs, self.key, epoch, columns)
        self.last_epoch = epoch
        return path

    def log(self, lines: Iterable[str]) -> None:
        """Append lines to `log.txt`, for people; nothing is read back from it."""
        text = "".join(f"{line}\n" for line in lines)
        if text:
            with open(self.folder / "log.txt", "a", encoding="utf-8") as file:
                file.write(text)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Record that all epochs are done. `summary` must be JSON-plain."""
        parts = {path.name: path.stat().st_size for paths in list_parts(self.epochs).values() for path in paths}
        done = {"schema": SCHEMA_VERSION, "key": self.key, "finished": _now(), "epoch": self.last_epoch}
        write_json(self.folder / "done.json", {**done, "parts": parts, "summary": dict(summary)})
        (self.folder / "failed.json").unlink(missing_ok=True)

    def fail(self, cause: Cause, error: str) -> None:
        """Record that the trial failed for good; a later `resume` takes it up again."""
        failed = {"schema": SCHEMA_VERSION, "key": self.key, "failed": _now(), "epoch": self.last_epoch}
        write_json(self.folder / "failed.json", {**failed, "cause": cause, "error": error})


def mark_failed(experiment: Path | str, spec: TrialSpec, cause: Cause, error: str) -> None:
    """`TrialStore.fail` for a trial whose own process is gone (killed, out of memory)."""
    with TrialStore(experiment, spec) as store:
        store.last_epoch = max(list_parts(store.epochs), default=-1)
        store.fail(cause, error)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
