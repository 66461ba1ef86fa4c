"""Tune's events, passed on to the progress display.

Tune pickles its callbacks, so what they talk to is held by this module. An exception in a callback would end the whole
sweep: the first one is said, and the display is left alone from then on.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray import tune
from ray.exceptions import RayActorError

from sweep.progress import Progress

_ATTACHED: dict[str, Any] = {}


@contextmanager
def attached(progress: Progress, stop: threading.Event) -> Iterator[None]:
    """Within the block, events go to `progress` and trials end when `stop` is set."""
    _ATTACHED.update(progress=progress, stop=stop)
    try:
        yield
    finally:
        _ATTACHED.clear()


class StopOnRequest(tune.Stopper):
    """Ends the experiment when an interrupt asks for it."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        stop = _ATTACHED.get("stop")
        return stop is not None and stop.is_set()


class ForwardToProgress(tune.Callback):
    """Trials are known by the key in their configuration."""

    def on_trial_start(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        _tell("started", trial.config["key"])

    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        if "objective" in result:
            _tell("result", trial.config["key"], result["epoch"], result["objective"])

    def on_trial_complete(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        _tell("ended", trial.config["key"])

    def on_trial_recover(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        _tell("retried", trial.config["key"], describe(trial))

    def on_trial_error(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        _tell("failed", trial.config["key"], describe(trial))


def describe(trial: Any) -> str:
    """The error of a Tune trial in one line."""
    file = trial.pickled_error_file
    error = pickle.loads(Path(file).read_bytes()) if file and Path(file).is_file() else None
    if isinstance(error, RayActorError):
        return "its process died (killed, or out of memory)"
    return (str(error).strip().splitlines() or ["no reason given"])[-1].strip()


def _tell(event: str, *values: Any) -> None:
    progress: Progress | None = _ATTACHED.get("progress")
    if progress is None:
        return
    try:
        getattr(progress, event)(*values)
    except Exception as error:
        _ATTACHED.pop("progress")
        print(f"the progress display failed and is off; the sweep goes on ({error!r})")
