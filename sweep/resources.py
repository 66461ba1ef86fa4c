"""How a machine's processors and GPUs are shared among trials; what cannot fit is refused before anything starts."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from sweep.config import SweepSection
from sweep.errors import ConfigError
from trainer.config import Machine


@dataclass(frozen=True)
class Share:
    """What each trial gets, and how many trials run at a time."""

    machine: Machine
    gpus: float
    concurrent: int


def share_out(section: SweepSection) -> Share:
    """The share of each trial on this machine. Errors: ConfigError when a single trial does not fit."""
    cpus = cpu_count()
    if section.threads > cpus:
        raise ConfigError(f"sweep.threads: asked for {section.threads} threads a trial; this machine has {cpus} CPUs")
    by_cpu = cpus // section.threads
    if section.device == "cpu":
        return Share(Machine(device="cpu", threads=section.threads), 0.0, section.concurrent or by_cpu)
    available = gpu_count()
    if not available and section.device == "auto":
        return Share(Machine(device="cpu", threads=section.threads), 0.0, section.concurrent or by_cpu)
    gpus = section.gpus_per_trial or 1.0
    if gpus > available:
        raise ConfigError(
            f"sweep.gpus_per_trial: asked for {gpus:g} GPU a trial; this machine has {available}"
            + ("" if available else ' that torch can use (sweep.device = "auto" falls back to the CPU)')
        )
    by_gpu = int(available / gpus) if gpus >= 1 else available * int(1 / gpus)
    machine = Machine(device="cuda", threads=section.threads, precision=section.precision)
    return Share(machine, gpus, section.concurrent or min(by_cpu, by_gpu))


def cpu_count() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpu_count() -> int:
    """CUDA devices that torch can use; torch is only loaded where there is a driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
