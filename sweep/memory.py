"""Whether the packs of a plan fit into memory, before Ray starts: the trainer predicts, this asks the machine.

Nothing here initialises CUDA: a context in the process that plans would take half a gigabyte from the trials.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep.errors import ConfigError
from sweep.resources import Share
from trainer.config import TrialSpec

GB = 1e9
RAY_BYTES = 800_000_000  # Ray's servers and the process that plans
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def fit(share: Share, asked: int, specs: Mapping[str, TrialSpec], plan: Mapping[str, Any]) -> tuple[Share, float]:
    """`share` with no more trials at a time than memory holds, and the predicted GB of the largest pack in `specs`.

    `asked`: trials at a time as configured, 0 for as many as there is room for. Errors: ConfigError when the largest
    pack does not fit, or not so often. Where the machine does not tell its free memory, everything fits.
    """
    from trainer.memory import bars_of_plan, pack_bytes

    bars = bars_of_plan(plan)
    needs = {key: pack_bytes(spec, bars).total for key, spec in specs.items()}
    largest = max(needs, key=lambda key: needs[key])
    need, found = needs[largest], free_gpu_bytes() if share.gpus else free_bytes()
    if found is None:
        return share, need / GB
    beside = min(share.concurrent, max(int(1 / share.gpus), 1) if share.gpus else share.concurrent)  # on one device
    room = max(found - (0 if share.gpus else RAY_BYTES), 0) // need
    if room >= beside:
        return share, need / GB
    told = f"memory: {_sentence(specs[largest], need, found, bool(share.gpus))}"
    if not room:
        raise ConfigError(f"{told}. {_smaller(specs[largest])}")
    if share.gpus:
        raise ConfigError(f"{told}, so {beside} do not fit on it. Raise sweep.gpus_per_trial to {1 / room:.3g} or more")
    if asked:
        raise ConfigError(
            f"{told}, so {beside} at a time do not fit. Lower sweep.concurrent to {room}, or 0: automatic"
        )
    return replace(share, concurrent=room), need / GB


def _sentence(spec: TrialSpec, need: int, free: int, gpu: bool) -> str:
    where = "the fullest GPU" if gpu else "this machine"
    beside = "" if gpu else f" ({RAY_BYTES / GB:.1f} GB of it for Ray)"
    members = "1 member" if len(spec.members) == 1 else f"{len(spec.members)} members"
    return f"a pack of {members} takes {need / GB:.1f} GB (predicted); {where} has {free / GB:.1f} GB free{beside}"


def _smaller(spec: TrialSpec) -> str:
    """The ways to a smaller pack."""
    trainer = spec.trainer
    fewer = 'fewer members a pack (sweep.seeds, arms.further or sweep.pack = "none"), '
    fewer = fewer if len(spec.members) > 1 else ""
    return (
        f"Take {fewer}a smaller trainer.batch_size (now {trainer.batch_size}), trainer.replay_capacity (now "
        f"{trainer.replay_capacity}) or trainer.network"
    )


def free_bytes() -> int | None:
    """Main memory that processes can still take, the kernel's caches included; None where the system does not say."""
    found = _available()
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        limit = int(CGROUP_LIMIT.read_text())
        found = limit if found is None else min(found, limit)
    return found


def _available() -> int | None:
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):  # not Linux
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def free_gpu_bytes() -> int | None:
    """Free memory of the fullest GPU that trials may see; None where nvidia-smi does not say."""
    if not shutil.which("nvidia-smi"):
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    command += [f"--id={visible}"] if visible else []
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        return min(int(line) for line in told.split()) * 2**20
    return None
