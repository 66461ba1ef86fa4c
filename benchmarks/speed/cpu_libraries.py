"""One C51 update on the CPU: gemsweep's own, Tianshou 2.0.1, TorchRL and one network in plain PyTorch, side by side.

    python benchmarks/speed/cpu_libraries.py --repeats 7 --seconds 2 --json OUT

All have the same threads, batch and replay size; `library_updates.py` says what each does. Repeats of all alternate, so
that what else the machine does falls on all alike. Wall and processor time and their ratios to ours, repeat by repeat:
median [smallest, largest]. `products` are the matrix products of an update alone. A library that is absent is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from library_updates import MAKERS
from shapes import Shape, synthetic
from timing import calls_for, summary

BATCH = 256
LIBRARIES = "tianshou", "torchrl"
PACKAGES = "torch", *LIBRARIES, "tensordict", "numpy", "numba"


def measure(
    shape: Shape, repeats: int, seconds: float, names: tuple[str, ...] = tuple(MAKERS), threads: int = 1
) -> dict[str, Any]:
    """Wall and processor milliseconds per update of each, the ratios of each repeat to ours, and the parameters."""
    torch.set_num_threads(threads)
    data = synthetic(shape)
    made = {name: MAKERS[name](shape, data) for name in names}
    calls = {name: calls_for(seconds, update, lambda: None) for name, (update, _) in made.items()}
    spent: dict[str, dict[str, list[float]]] = {name: {"wall_ms": [], "cpu_ms": []} for name in names}
    for _ in range(repeats):
        for name, (update, _) in made.items():
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(calls[name]):
                update()
            spent[name]["wall_ms"].append(1e3 * (time.perf_counter() - wall) / calls[name])
            spent[name]["cpu_ms"].append(1e3 * (time.process_time() - processor) / calls[name])
    return summaries(spent, {name: parameters for name, (_, parameters) in made.items()})


def summaries(spent: dict[str, dict[str, list[float]]], parameters: dict[str, int]) -> dict[str, Any]:
    """`wall_ratio` and `cpu_ratio`: of one over ours, repeat by repeat; absent without ours."""
    found: dict[str, Any] = {}
    for name, times in spent.items():
        found[name] = {kind: summary(values) for kind, values in times.items()} | {"parameters": parameters[name]}
        for kind in ("wall", "cpu") if "ours" in spent else ():
            pairs = zip(times[f"{kind}_ms"], spent["ours"][f"{kind}_ms"], strict=True)
            found[name][f"{kind}_ratio"] = summary([one / ours for one, ours in pairs])
    return found


def lines(found: dict[str, Any]) -> Iterator[str]:
    kinds = "cpu_ms", "wall_ms", "cpu_ratio", "wall_ratio"
    heads = "CPU ms", "wall ms", "over ours, CPU", "over ours, wall"
    yield f"{'':14}{'parameters':>10}" + "".join(f"{head:>24}" for head in heads)
    for name, row in found.items():
        shown = (f"{v['median']:.2f} [{v['min']:.2f}, {v['max']:.2f}]" for v in (row[k] for k in kinds if k in row))
        yield f"{name:14}{row['parameters']:>10,}" + "".join(f"{text:>24}" for text in shown)


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def main() -> None:
    here = [name for name in MAKERS if name not in LIBRARIES or importlib.util.find_spec(name)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one repeat")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=MAKERS, default=here)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shape, names = Shape(batch=options.batch), tuple(options.only)
    found = measure(shape, options.repeats, options.seconds, names, options.threads)
    print("\n".join(lines(found)))
    if options.json:
        about = {"versions": versions(), "batch": options.batch, "threads": options.threads}
        options.json.write_text(json.dumps(about | {"found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
