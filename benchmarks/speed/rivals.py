"""The registry of what `run.py` measures: functions from a `Job` to an `Outcome`, each run in its own process.

To add one:

    @rival("ours", precisions=("tf32", "bf16"))
    def ours(job: Job) -> Outcome:
        step, updates = ...                       # one call does `updates` updates of each of job.shape.members
        return Outcome(torch_rates(step, job.device, job.shape.members * updates, job.repeats, job.seconds))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shapes import Shape
from timing import torch_rates

Call = Callable[[], object]
SEARCH_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """`variants`: names to choose from by a short trial; empty: every variant that the rival knows."""

    name: str
    shape: Shape
    device: str
    precision: str
    repeats: int
    seconds: float
    variants: tuple[str, ...] = ()


@dataclass
class Outcome:
    """`values`: members x updates per second, one a repeat. `tried`: rate or error of each variant in its trial."""

    values: list[float]
    variant: str = ""
    tried: dict[str, float | str] = field(default_factory=dict)
    prepare_seconds: float = 0.0


@dataclass(frozen=True)
class Rival:
    run: Callable[[Job], Outcome]
    precisions: tuple[str, ...]
    members: int | None  # None: any number


RIVALS: dict[str, Rival] = {}


def rival(
    name: str, precisions: tuple[str, ...] = ("tf32", "bf16"), members: int | None = None
) -> Callable[[Callable[[Job], Outcome]], Callable[[Job], Outcome]]:
    def register(run: Callable[[Job], Outcome]) -> Callable[[Job], Outcome]:
        RIVALS[name] = Rival(run, precisions, members)
        return run

    return register


def best_of(
    job: Job, variants: Sequence[Any], build: Callable[[Any], Any], rates: Callable[[Any, Any, int, float], list[float]]
) -> Outcome:
    """Try each variant once for a short time, then measure the fastest anew, so that its luck in the trial is not kept.

    `build` makes what `rates` measures. A variant that fails is noted and left out.
    """
    start, best, fastest = time.perf_counter(), None, 0.0
    tried: dict[str, float | str] = {}
    for variant in variants:
        if job.variants and variant.name not in job.variants:
            continue
        try:
            call = build(variant)
            rate = tried[variant.name] = rates(variant, call, 1, SEARCH_SECONDS)[0]
        except Exception as error:
            tried[variant.name] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        if rate > fastest:
            best, fastest = (variant, call), rate
    if best is None:
        raise RuntimeError(f"{job.name}: no variant ran: {tried}")
    took = time.perf_counter() - start
    return Outcome(rates(*best, job.repeats, job.seconds), best[0].name, tried, took)


def _member(job: Job, captured: bool) -> Outcome:
    import torch
    from torch_member import make

    step = make(job.shape, torch.device(job.device), job.precision, captured)
    return Outcome(torch_rates(step, job.device, 1.0, job.repeats, job.seconds))


@rival("torch-eager", members=1)
def torch_eager(job: Job) -> Outcome:
    return _member(job, captured=False)


@rival("torch-captured", members=1)
def torch_captured(job: Job) -> Outcome:
    return _member(job, captured=True)


def _processes(job: Job, captured: bool) -> Outcome:
    import processes
    from torch_member import make

    one, how = replace(job.shape, members=1), (job.precision, captured)
    return Outcome(processes.measure(make, one, job.device, how, job.shape.members, job.repeats, job.seconds))


def _register_processes(number: int, captured: bool) -> None:
    kind = "captured" if captured else "eager"
    rival(f"processes-{number}-{kind}", ("tf32",), number)(lambda job: _processes(job, captured))


for _number in (8, 16):
    for _captured in (False, True):
        _register_processes(_number, _captured)


@rival("torch-packed")
def torch_packed(job: Job) -> Outcome:
    import torch
    from torch_packed import VARIANTS, Variant, make

    device, done = torch.device(job.device), {}

    def build(variant: Variant) -> Call:
        call, done[variant.name] = make(job.shape, device, job.precision, variant)
        return call

    def rates(variant: Variant, call: Call, repeats: int, seconds: float) -> list[float]:
        return torch_rates(call, job.device, job.shape.members * done[variant.name], repeats, seconds)

    return best_of(job, VARIANTS, build, rates)


@rival("jax-packed")
def jax_packed(job: Job) -> Outcome:
    import jax
    from jax_packed import VARIANTS, Packed

    jax.config.update("jax_platforms", "cuda" if job.device.startswith("cuda") else "cpu")
    return best_of(
        job,
        VARIANTS,
        lambda variant: Packed(job.shape, job.precision, variant),
        lambda _, packed, repeats, seconds: packed.rates(repeats, seconds),
    )
