"""Predicted and measured memory of the full trainer, and of `gemsweep smoke`: one line each, a process for each.

    python benchmarks/memory.py --members 64 256 512 [--device cuda]

Sizes are those of the speed comparison (batch 512, widths 64-256-256, three heads of 128, 51 atoms, a replay of 16384),
all features on and three gems probed. Measured over iterations of both kinds and the end of an epoch. Tensors: on CUDA
torch's peak of allocated memory, on a CPU the bytes alive (`live_tensors.py`). All: what the process takes of the
device, or of main memory at its peak.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EACH_KIND = 4  # iterations: two eager, then captured and replayed
GB = 1e9


def trial(members: int, device: str, precision: str) -> None:
    """Print the line of one pack of the full trainer."""
    import torch
    from live_tensors import LiveTensors, storages
    from ours import FULL, filled_pack, spec_of
    from shapes import Shape

    import numba_kernels as nk
    from trainer.capture import make_step
    from trainer.loop import make_record
    from trainer.memory import bars_of, pack_bytes

    cuda, shape = device.startswith("cuda"), Shape(members=members)
    torch.set_float32_matmul_precision("high" if cuda else "highest")
    with torch.no_grad():
        nk.warmup(device)
        pack = filled_pack(shape, spec_of(shape, device, FULL, precision))
        step, predicted = make_step(pack), pack_bytes(pack.spec, bars_of(pack.table))
        with LiveTensors() if not cuda else torch.no_grad() as alive:
            for diagnose in [False] * EACH_KIND + [True] * EACH_KIND:
                step(pack, diagnose)
            make_record(pack, pack.spec.trainer.epochs)
    if cuda:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        context = total - free - torch.cuda.memory_reserved()
        tensors, everything = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved() + context
    else:
        tensors, everything = sum(s.nbytes() for s in storages(pack).values()) + alive.peak, _peak_bytes()
    print(line(f"{members} members, tensors", predicted.tensors, tensors), flush=True)
    print(line(f"{members} members, all", predicted.total, everything), flush=True)


def smoke() -> None:
    """Print the line of `gemsweep smoke`: planning, training and writing in one process."""
    from sweep.plan import planned
    from sweep.smoke import run_trial_here, smoke_config
    from trainer.memory import bars_of_plan, pack_bytes
    from trainer.record import read_plan

    with tempfile.TemporaryDirectory() as storage:
        folder = run_trial_here(smoke_config(storage=storage))
        plan = read_plan(folder)
    spec = next(iter(planned(plan).values()))
    predicted = pack_bytes(spec, bars_of_plan(plan)).total
    print(line(f"smoke preset, {len(spec.members)} members, all", predicted, _peak_bytes()))


def _peak_bytes() -> int:
    """Largest resident set of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def line(label: str, predicted: int, measured: int) -> str:
    ratio = predicted / measured
    return f"{label:36}predicted {predicted / GB:7.3f} GB   measured {measured / GB:7.3f} GB   ratio {ratio:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="tf32", choices=["tf32", "float32", "bf16"])
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a process of its own does
    options = parser.parse_args()
    sys.path.append(str(HERE / "speed"))
    if options.one == "smoke":
        smoke()
    elif options.one:
        trial(int(options.one), options.device, options.precision)
    else:
        for one in [*map(str, options.members), "smoke"]:
            same = ["--device", options.device, "--precision", options.precision]
            subprocess.run([sys.executable, __file__, *same, "--one", one], check=True)


if __name__ == "__main__":
    main()
