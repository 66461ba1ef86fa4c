"""Seconds that a worker spends before its first update, and between two trials: one line each.

python benchmarks/speed/startup.py --members 64 [--device cuda]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

BEGAN = time.perf_counter()


def timed(label: str, work: Callable[[], object], repeats: int = 1) -> None:
    """Print the median time of `work`, device work included."""
    import torch

    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    spread = f" [{min(found):.3f}, {max(found):.3f}]" if repeats > 1 else ""
    print(f"{label:46}{statistics.median(found):8.3f} s{spread}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    import torch
    from ours import FULL, spec_of
    from shapes import Shape

    import numba_kernels as nk
    from trainer.session import Session
    from trainer.step import begin_walks, walk

    print(f"{'imports':46}{time.perf_counter() - BEGAN:8.3f} s", flush=True)
    torch.set_float32_matmul_precision("high")
    spec, session = spec_of(Shape(members=options.members), options.device, FULL), Session()
    other = spec.model_copy(update={"trainer": spec.trainer.model_copy(update={"learning_rate": 3e-4})})
    with torch.no_grad():
        timed("CUDA context", lambda: torch.zeros(1, device=options.device))
        timed("kernels, compiled or from the cache", lambda: nk.warmup(options.device))
        table = session.table(spec.data)
        timed("pack", lambda: session.open(spec, table))
        pack, step = session.open(spec, table)
        begin_walks(pack)
        timed("filling the replay for the first batch", lambda: [walk(pack) for _ in range(12)])
        timed("first update (eager)", lambda: step(pack, False))
        print(f"{'from the start to the first update':46}{time.perf_counter() - BEGAN:8.3f} s", flush=True)
        step(pack, False)
        timed("capture and first replay", lambda: step(pack, False))
        for _ in range(2):
            step(pack, True)
        timed("capture and first replay, with diagnostics", lambda: step(pack, True))
        specs = iter([other, spec] * 5)
        timed("reset in place for another trial", lambda: session.open(next(specs), table), repeats=9)
        if options.device.startswith("cuda"):
            peak, capacity = torch.cuda.max_memory_allocated() / 2**30, options.members
            print(f"peak memory of {capacity} members: {peak:.2f} GiB, {1024 * peak / capacity:.1f} MiB a member")


if __name__ == "__main__":
    main()
