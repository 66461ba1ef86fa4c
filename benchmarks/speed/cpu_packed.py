"""Members on two CPU cores: one packed process with one thread and with two, beside two processes of half the members.

    python benchmarks/speed/cpu_packed.py --members 16 --repeats 7 --seconds 2 --json OUT

Sizes are those of the smoke preset: batch 64, trunk 64-64, heads of 32, 8 market walks. Two workloads: one C51 update,
and an iteration of the full trainer with its walks. All processes of a workload stay up, and the repeats of the three
ways alternate, so that what else the machine does falls on all alike. Updates are summed over members: a second of the
clock, and a second of processor time, which other programs of a busy machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from run import versions
from shapes import Shape
from timing import summary

SMOKE = Shape(batch=64, capacity=8192, trunk=(64, 64), head=32, environments=8)
WORKLOADS = "c51", "full"
THREADS = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"
WARM_UP = 5
PATIENCE = 300.0  # seconds to build and to warm up
Spent = tuple[int, float, float]  # members' updates, seconds, processor seconds


@dataclass(frozen=True)
class Way:
    """`processes` at a time, each with its part of the members and so many `threads`."""

    name: str
    processes: int
    threads: int


WAYS = Way("packed, 1 thread", 1, 1), Way("packed, 2 threads", 1, 2), Way("2 processes of half", 2, 1)


def _step(shape: Shape, workload: str, threads: int) -> Callable[[], object]:
    import torch
    from ours import C51_ONLY, FULL, iterate, make, update

    torch.set_num_threads(threads)
    arm, step = (C51_ONLY, update) if workload == "c51" else (FULL, iterate)
    return make(shape, torch.device("cpu"), arm, step, captured=False)


def spend(step: Callable[[], object], members: int, seconds: float) -> Spent:
    """Step for at least `seconds`."""
    begun, processor, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - begun < seconds:
        step()
        done += members
    return done, time.perf_counter() - begun, time.process_time() - processor


def _work(wire: Connection, shape: Shape, workload: str, threads: int) -> None:
    """Be ready, then answer every number of seconds with what was spent; None ends it."""
    step = _step(shape, workload, threads)
    for _ in range(WARM_UP):
        step()
    wire.send(None)
    while (seconds := wire.recv()) is not None:
        wire.send(spend(step, shape.members, seconds))


@contextmanager
def running(way: Way, shape: Shape, workload: str) -> Iterator[list[Connection]]:
    """The ready processes of a way, each with its part of the members; ended afterwards."""
    context, part = mp.get_context("spawn"), replace(shape, members=shape.members // way.processes)
    pipes = [context.Pipe() for _ in range(way.processes)]
    os.environ.update(dict.fromkeys(THREADS, str(way.threads)))  # read when a library starts, in the child
    workers = [context.Process(target=_work, args=(wire, part, workload, way.threads)) for _, wire in pipes]
    try:
        for worker, (mine, theirs) in zip(workers, pipes, strict=True):
            worker.start()
            theirs.close()
            if not mine.poll(PATIENCE):
                raise TimeoutError(f"{way.name}: not ready after {PATIENCE:g} s")
            mine.recv()
        yield [mine for mine, _ in pipes]
        for mine, _ in pipes:
            mine.send(None)
    finally:
        for worker in workers:
            worker.join(10.0)
            worker.kill()


def window(wires: list[Connection], seconds: float) -> dict[str, float]:
    """One repeat of a way: its rates a second of the clock and a second of processor time."""
    for wire in wires:
        wire.send(seconds)
    found: list[Spent] = [wire.recv() for wire in wires]
    done, processor = sum(spent[0] for spent in found), sum(spent[2] for spent in found)
    return {"wall": sum(updates / wall for updates, wall, _ in found), "cpu": done / processor}


def measure(shape: Shape, workload: str, repeats: int, seconds: float, ways: tuple[Way, ...] = WAYS) -> dict[str, Any]:
    """Summaries by way."""
    with ExitStack() as stack:
        wires = {way.name: stack.enter_context(running(way, shape, workload)) for way in ways}
        rounds = [{name: window(part, seconds) for name, part in wires.items()} for _ in range(repeats)]
    return {way.name: {k: summary([r[way.name][k] for r in rounds]) for k in ("wall", "cpu")} for way in ways}


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'':30}{'updates/s':>28}{'updates/CPU s':>28}"
    for workload, rows in found.items():
        for name, row in rows.items():
            shown = (f"{x['median']:,.0f} [{x['min']:,.0f}, {x['max']:,.0f}]" for x in row.values())
            yield f"{workload:6}{name:24}" + "".join(f"{text:>28}" for text in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one repeat")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shape = replace(SMOKE, members=options.members)
    found = {name: measure(shape, name, options.repeats, options.seconds) for name in options.only}
    print("\n".join(lines(found)))
    if options.json:
        about = {"versions": versions(), "members": options.members, "load": os.getloadavg()}
        options.json.write_text(json.dumps(about | {"found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
