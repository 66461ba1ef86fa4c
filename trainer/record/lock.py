"""One writer a trial: a kernel file lock, so that a killed writer never leaves a trial locked."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from pathlib import Path

from trainer.record.files import RecordError

WAIT_SECONDS = 0.5  # longer than a reader's test of the lock, far shorter than a trial


class TrialLocked(RecordError):
    """Another process is writing this trial."""


class TrialLock:
    """Exclusive `flock` on `<trial>/lock`, held until `release` or the end of the process.

    The file stays when the lock goes: deleting it would let a waiting process lock a name that no longer exists.
    """

    def __init__(self, path: Path, wait: float = WAIT_SECONDS) -> None:
        self.path = path
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire(self._descriptor, wait)
        except BaseException:
            self.release()
            raise
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _acquire(self, descriptor: int, wait: float) -> None:
        deadline = time.monotonic() + wait
        while not _try_lock(descriptor, fcntl.LOCK_EX, self.path):
            if time.monotonic() >= deadline:
                holder = self.path.read_text(errors="replace").strip() or "another process"
                raise TrialLocked(f"{self.path.parent}: {holder} is writing this trial; wait for it or stop it first")
            time.sleep(0.02)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock; takes it shared for a moment, which a writer waits out."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH, path)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise RecordError(
            f"{path}: this file system has no file locks ({error.strerror}); use a local folder"
        ) from error
    return True
