"""Repeated measurements: every figure is a rate, and what is reported is the median with the smallest and largest."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

LEAST_CALLS = 3


def summary(values: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "values": list(values)}


def calls_for(seconds: float, call: Callable[[], object], wait: Callable[[], object]) -> int:
    """How many calls fill `seconds`; the calls it makes warm up as well."""
    call()
    wait()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        took = time.perf_counter() - start
        if took > 0.1 * seconds:
            return max(LEAST_CALLS, round(calls * seconds / took))
        calls *= 2


def blocking_rates(
    call: Callable[[], object], wait: Callable[[], object], per_call: float, repeats: int, seconds: float
) -> list[float]:
    """Units per second of host time between two waits, one figure a repeat; a call does `per_call` units."""
    calls, found = calls_for(seconds, call, wait), []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        found.append(per_call * calls / (time.perf_counter() - start))
    return found


def event_rates(call: Callable[[], object], per_call: float, repeats: int, seconds: float) -> list[float]:
    """As `blocking_rates`, timed by CUDA events on the current stream."""
    import torch

    calls, found = calls_for(seconds, call, torch.cuda.synchronize), []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        found.append(per_call * calls / (begin.elapsed_time(end) * 1e-3))
    return found


def torch_rates(call: Callable[[], object], device: str, per_call: float, repeats: int, seconds: float) -> list[float]:
    """By events on a CUDA device, by the clock on the CPU."""
    if device.startswith("cuda"):
        return event_rates(call, per_call, repeats, seconds)
    return blocking_rates(call, lambda: None, per_call, repeats, seconds)
