"""The function that a Ray worker runs for one trial. It is handed a key; everything else it reads from the plan."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.inputs import check_inputs
from sweep.ray_reporter import Metrics, RayReporter
from trainer.config import TrialSpec
from trainer.record import RecordError, TrialFinished, TrialLocked, TrialStore, read_plan
from trainer.reporter import Reporter, StoreReporter

if TYPE_CHECKING:
    from trainer.session import Session

LOCK_SECONDS = 60.0  # workers of a killed sweep end within seconds; until then they hold their trial

Body = Callable[[TrialSpec, Reporter], None]


def run_key(experiment: Path, key: str, report: Callable[[Metrics], None], body: Body | None = None) -> None:
    """Run or go on with trial `key` of the plan in `experiment`. `body`: default `trainer.run_trial`.

    An error that would come again, since a trial repeats bit for bit, is recorded as the trial's failure. One of the
    machine (disk, memory) is raised: Ray starts the trial again from its newest checkpoint.
    """
    plan = read_plan(experiment)
    spec = next(TrialSpec.model_validate(trial) for trial in plan["trials"] if trial["key"] == key)
    with _locked_store(experiment, spec) as store:
        try:
            (body or _trained_body(plan))(spec, RayReporter(StoreReporter(store), report))
        except TrialFinished:
            return
        except Exception as error:
            store.log(f"# {line}" for line in traceback.format_exc().splitlines())
            if may_pass(error):
                raise
            store.fail("pack", f"{type(error).__name__}: {error}")


def _trained_body(plan: Mapping[str, Any]) -> Body:
    """`run_trial`, once the bars and gems are found to be those of the plan, on this machine too."""
    from trainer.loop import run_trial

    def body(spec: TrialSpec, reporter: Reporter) -> None:
        check_inputs(plan, spec.data)
        run_trial(spec, reporter, session=_session())

    return body


@functools.cache
def _session() -> Session:
    """One a worker process: Ray hands it trial after trial."""
    from trainer.session import Session

    return Session()


def may_pass(error: Exception) -> bool:
    """Whether the trial could succeed on another try: the machine failed, not the computation."""
    return isinstance(error, OSError | MemoryError | RecordError) or type(error).__name__ == "OutOfMemoryError"


def _locked_store(experiment: Path, spec: TrialSpec) -> TrialStore:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return TrialStore(experiment, spec)
        except TrialLocked:
            if time.monotonic() >= deadline:
                raise
