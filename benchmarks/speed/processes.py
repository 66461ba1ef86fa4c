"""One process a network, all on one GPU: each runs its own step from a common start for a fixed time.

Without the Multi-Process Service the GPU serves their contexts in turns; whether it runs is for the machine to say.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import TypeAlias

from shapes import Shape

Maker: TypeAlias = Callable[..., Callable[[], None]]
CHUNK = 20  # updates between two waits for the GPU
WARM_UP = 40
PATIENCE = 300.0  # seconds for every process to be ready


def count(step: Callable[[], None], wait: Callable[[], None], seconds: float) -> float:
    """Finished updates per second over at least `seconds`."""
    start, done = time.perf_counter(), 0
    while True:
        for _ in range(CHUNK):
            step()
        wait()
        done += CHUNK
        took = time.perf_counter() - start
        if took >= seconds:
            return done / took


def _work(
    make: Maker, shape: Shape, device: str, how: tuple, plan: list[float], start: Barrier, out: Queue[list[float]]
) -> None:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    try:
        step = make(shape, torch.device(device), *how)
        for _ in range(WARM_UP):
            step()
        wait()
        found = []
        for seconds in plan:
            start.wait(PATIENCE)
            found.append(count(step, wait, seconds))
        out.put(found)
    except BaseException:
        start.abort()
        raise


def measure(
    make: Maker, shape: Shape, device: str, how: tuple, processes: int, repeats: int, seconds: float
) -> list[float]:
    """Summed updates per second of all processes, one figure a repeat; `make(shape, device, *how)` gives a step."""
    context = mp.get_context("spawn")
    start, out = context.Barrier(processes), context.Queue()
    job = (make, shape, device, how, [seconds] * repeats, start, out)
    workers = [context.Process(target=_work, args=job) for _ in range(processes)]
    for worker in workers:
        worker.start()
    try:
        found = [out.get(timeout=PATIENCE + repeats * (seconds + 10.0)) for _ in workers]
    finally:
        for worker in workers:
            worker.join(timeout=10.0)
            if worker.is_alive():
                worker.kill()
    return [sum(rates) for rates in zip(*found, strict=True)]
