"""A trial body without a network: milliseconds an epoch, deterministic, and able to fail in every way a real one can.

Every epoch that is computed leaves a line in a ledger, so that tests can tell what was computed, where and how often.
As a script it runs a sweep of such trials, for tests that kill the driver.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sweep.toml_file import read_config
from trainer.config import TrialSpec
from trainer.record import Checkpoint
from trainer.reporter import EpochRecord, Reporter

EPOCHS = 4
CONFIG = [
    "data.symbols=['IBM']",
    f"trainer.epochs={EPOCHS}",
    "trainer.score_epochs=1",
    "sweep.seeds=2",
    "data.folds.count=1",
    "sweep.concurrent=2",
    "sweep.max_failures=1",
]


def configuration(storage: Path, *overrides: str):
    return read_config(None, [*CONFIG, *overrides], {"sweep.storage": str(storage), "sweep.name": "fake"})


@dataclass
class FakeBody:
    """`faults`: launch number of a trial -> what goes wrong in its second epoch. `seconds`: of an epoch."""

    ledger: Path
    faults: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __call__(self, spec: TrialSpec, reporter: Reporter) -> None:
        checkpoint = reporter.resume()
        total, begun = np.zeros(len(spec.members)), 0
        if checkpoint:
            total, begun = np.array(checkpoint.tensors["total"]), checkpoint.epoch + 1
        for epoch in range(begun, spec.trainer.epochs + 1):
            time.sleep(self.seconds)
            fault = self.faults.get(spec.launch, "") if epoch == 2 else ""
            self._note(spec.key, epoch)
            self._break(fault, spec.key)
            total = total + [spec.trainer.learning_rate * (m.seed + 1) * epoch for m in spec.members]
            objective = float("nan") if fault == "nan" else float(total.mean())
            record = EpochRecord(epoch, self._columns(spec, epoch, total), objective, [f"epoch {epoch}"])
            if reporter.epoch(record, lambda e=epoch, t=total: Checkpoint(e, {"total": t}, {})):
                return
        reporter.finish({})

    def _note(self, key: str, epoch: int) -> None:
        threads, gpus = os.environ.get("OMP_NUM_THREADS"), os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
        with open(self.ledger, "a") as file:
            file.write(f"{key} {epoch} {os.getpid()} {threads} {gpus!r} {time.time()}\n")

    def _break(self, fault: str, key: str) -> None:
        if fault == "error":
            raise ValueError("broken on purpose")
        if fault == "kill" or (fault == "kill once" and not self.ledger.with_suffix(f".{key}").exists()):
            self.ledger.with_suffix(f".{key}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def _columns(self, spec: TrialSpec, epoch: int, total: np.ndarray) -> dict:
        members = spec.members
        return {
            "trial": [spec.key] * len(members),
            "config": [spec.config_key] * len(members),
            "arm": [m.arm for m in members],
            "seed": np.array([m.seed for m in members]),
            "fold": np.array([m.fold for m in members], dtype=np.int32),
            "member": np.arange(len(members), dtype=np.int32),
            "epoch": np.full(len(members), epoch, dtype=np.int32),
            "status": ["ok"] * len(members),
            "eval/validation/sharpe": total,
            "gem/g6_branch_indep/mode": ["probe" if m.arm == "base" else "off" for m in members],
            "gem/g6_branch_indep/value": np.where([m.arm == "base" for m in members], total, np.nan),
            "clock/seconds": np.full(len(members), time.time()),
        }


def ledger_rows(path: Path) -> list[tuple[str, int, int, str, str, float]]:
    """(key, epoch, process, threads, visible GPUs, time) of every computed epoch."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return [(r[0], int(r[1]), int(r[2]), r[3], r[4], float(r[5])) for r in rows]


if __name__ == "__main__":
    from rich.console import Console

    from sweep.run import run

    storage, seconds = Path(sys.argv[1]), float(sys.argv[2])
    body = FakeBody(storage / "ledger", seconds=seconds)
    raise SystemExit(run(configuration(storage, "sweep.trials=4"), Console(), body=body).exit_code)
