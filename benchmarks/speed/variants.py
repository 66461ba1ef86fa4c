"""The best of the ways to write one rival: each is tried in a process of its own, under a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apart import apart
from rivals import Job, Outcome

SEARCH_SECONDS = 0.5
Rates = Callable[[Job, Any, int, float], list[float]]  # of job and variant, so many repeats of so many seconds


def best_of(job: Job, variants: Sequence[Any], rates: Rates, by_name: Sequence[Any] = ()) -> Outcome:
    """Try each variant once for a short time, then measure the fastest anew, so that its luck in the trial is not kept.

    `by_name` are tried only when `job.variants` names them. A variant that fails, or that is not built and tried within
    `job.limit` seconds, is noted and left out.
    """
    start = time.perf_counter()
    known = {variant.name: variant for variant in (*variants, *by_name)}
    wanted = job.variants or [variant.name for variant in variants]
    tried = {name: _tried(job, known[name], rates) for name in wanted if name in known}
    best = fastest(tried)
    if best is None:
        raise RuntimeError(f"{job.name}: no variant ran: {tried}")
    took = time.perf_counter() - start
    limit = job.limit + 2.0 * (job.repeats + 1) * job.seconds
    return Outcome(apart(rates, job, known[best], job.repeats, job.seconds, limit=limit), best, tried, took)


def fastest(tried: Mapping[str, float | str]) -> str | None:
    """The name with the largest rate; None when no variant has one."""
    ran = {name: rate for name, rate in tried.items() if not isinstance(rate, str)}
    return max(ran, key=lambda name: ran[name]) if ran else None


def _tried(job: Job, variant: Any, rates: Rates) -> float | str:
    """Its rate, or why it has none."""
    try:
        return apart(rates, job, variant, 1, SEARCH_SECONDS, limit=job.limit)[0]
    except TimeoutError as error:
        return str(error)
    except RuntimeError as error:
        return str(error)[:300]


def torch_rates(job: Job, variant: Any, repeats: int, seconds: float) -> list[float]:
    import timing
    import torch
    from torch_packed import make

    call, updates = make(job.shape, torch.device(job.device), job.precision, variant)
    return timing.torch_rates(call, job.device, job.shape.members * updates, repeats, seconds)


def jax_rates(job: Job, variant: Any, repeats: int, seconds: float) -> list[float]:
    import jax
    from jax_packed import measure

    jax.config.update("jax_platforms", "cuda" if job.device.startswith("cuda") else "cpu")
    return measure(job.shape, job.precision, variant, repeats, seconds)
