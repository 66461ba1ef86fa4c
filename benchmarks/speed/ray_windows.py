"""A trial of `ray_trials.py`, and the windows of time in which all trials of a case run.

Every trial builds its step, warms up and reports to one actor. When all have, the actor names a start. From then on
each works until the last window is over, and notes when each chunk of updates was done. A rate counts inside a window
only, so neither an early start nor a late end of a trial enters it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from shapes import Shape

LEAD = 2.0  # seconds from the last trial's readiness to the first window
PATIENCE = 900.0  # seconds that a trial waits for the others
POLL = 0.05
WARM_UP = 20
CHUNK = 5  # updates between two waits for the device


@dataclass(frozen=True)
class Case:
    """`trials` Ray Tune trials at a time with `members` members each; `captured`: as a CUDA graph."""

    name: str
    trials: int
    members: int
    captured: bool
    share: float  # of a GPU, for each trial

    @property
    def total(self) -> int:
        return self.trials * self.members


class Start:
    """The actor: counts trials that are ready, and then says when the first window begins (`time.time()`)."""

    def __init__(self, trials: int) -> None:
        self.left = trials
        self.begin: float | None = None

    def ready(self) -> None:
        self.left -= 1
        if not self.left:
            self.begin = time.time() + LEAD

    def time(self) -> float | None:
        return self.begin


def wait_for_start(start: Any) -> float:
    """Announce this trial and wait for the others; the begin of the first window."""
    import ray

    ray.get(start.ready.remote())
    deadline = time.time() + PATIENCE
    while (begin := ray.get(start.time.remote())) is None:
        if time.time() > deadline:
            raise TimeoutError(f"not all trials were ready after {PATIENCE:g} s")
        time.sleep(POLL)
    return float(begin)


def work_until(
    end: float, step: Callable[[], object], wait: Callable[[], object], clock: Callable[[], float] = time.time
) -> tuple[list[float], list[int]]:
    """Step until `end` has passed; the times at which so many steps were done."""
    times, done = [clock()], [0]
    while times[-1] < end:
        for _ in range(CHUNK):
            step()
        wait()
        times.append(clock())
        done.append(done[-1] + CHUNK)
    return times, done


def window_rates(times: list[float], done: list[int], begin: float, windows: int, seconds: float) -> list[float]:
    """Steps per second in each window; inside a chunk its steps are spread evenly."""
    if times[0] > begin:
        raise RuntimeError("a trial started after the first window")
    edges = np.interp(begin + seconds * np.arange(windows + 1), times, done)
    return [float(rate) for rate in np.diff(edges) / seconds]


def run_trial(case: Case, shape: Shape, device: str, windows: int, seconds: float, start: Any) -> dict[str, Any]:
    """Build, warm up, wait for the others, work: members x updates a second in each window."""
    began = time.perf_counter()
    import torch
    from ours import FULL, iterate, make

    torch.set_num_threads(1)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    step = make(shape, torch.device(device), FULL, iterate, captured=case.captured)
    for _ in range(WARM_UP):
        step()
    wait()
    ready = time.perf_counter() - began
    begin = wait_for_start(start)
    times, done = work_until(begin + windows * seconds, step, wait)
    rates = [case.members * rate for rate in window_rates(times, done, begin, windows, seconds)]
    return {"rates": rates, "ready_seconds": ready}
