"""The registry of what `run.py` measures: functions from a `Job` to an `Outcome`, each run in its own process.

To add one:

    @rival("ours", precisions=("tf32", "bf16"))
    def ours(job: Job) -> Outcome:
        step, updates = ...                       # one call does `updates` updates of each of job.shape.members
        return Outcome(torch_rates(step, job.device, job.shape.members * updates, job.repeats, job.seconds))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from shapes import Shape
from timing import torch_rates


@dataclass(frozen=True)
class Job:
    """`variants`: names to choose from by a short trial; empty: every variant that the rival tries by itself. `limit`:
    seconds in which a variant must be built and tried."""

    name: str
    shape: Shape
    device: str
    precision: str
    repeats: int
    seconds: float
    variants: tuple[str, ...] = ()
    limit: float = 90.0


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
    from torch_packed import VARIANTS
    from variants import best_of, torch_rates

    return best_of(job, VARIANTS, torch_rates)


@rival("jax-packed")
def jax_packed(job: Job) -> Outcome:
    from jax_packed import BY_NAME, VARIANTS
    from variants import best_of, jax_rates

    return best_of(job, VARIANTS, jax_rates, BY_NAME)
