"""Schedules on the device: slots of the signal table that follow the number of updates."""

from __future__ import annotations

from numba import float32, uint32

from . import step_arithmetic
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
ARGUMENTS = declare(
    "signals: float32[P, S], counters: int64[P, C], updates: int64, linear: int64[L, 4], ramps: int64[R, 3]"
)
_on_cuda, _on_cpu = for_cuda(step_arithmetic), for_cpu(step_arithmetic)
_annealed_cuda, _opened_cuda = _on_cuda.annealed, _on_cuda.opened
_annealed_cpu, _opened_cpu = _on_cpu.annealed, _on_cpu.opened


@cuda_kernel(BLOCK)
def anneal_kernel(signals, counters, updates, linear, ramps):
    """Grid (P / 64); a thread owns a lane and writes its slots one after the other. A few hundred bytes a lane."""
    lane = uint32(cuda.blockIdx.x) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if lane >= uint32(signals.shape[0]):
        return
    row, done = signals[lane], float32(counters[lane, uint32(updates)])
    for k in range(uint32(linear.shape[0])):
        start, end = row[uint32(linear[k, 0])], row[uint32(linear[k, 1])]
        row[uint32(linear[k, 3])] = _annealed_cuda(start, end, row[uint32(linear[k, 2])], done)
    for k in range(uint32(ramps.shape[0])):
        row[uint32(ramps[k, 2])] = _opened_cuda(row[uint32(ramps[k, 0])], row[uint32(ramps[k, 1])], done)


@cpu_kernel
def anneal_cpu(signals, counters, updates, linear, ramps):
    for lane in range(signals.shape[0]):
        row, done = signals[lane], float32(counters[lane, updates])
        for k in range(linear.shape[0]):
            start, end = row[linear[k, 0]], row[linear[k, 1]]
            row[linear[k, 3]] = _annealed_cpu(start, end, row[linear[k, 2]], done)
        for k in range(ramps.shape[0]):
            row[ramps[k, 2]] = _opened_cpu(row[ramps[k, 0]], row[ramps[k, 1]], done)


KERNEL = CudaKernel(anneal_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    return [Launch(KERNEL, (-(-tensors[0].shape[0] // BLOCK),), tensors)]


OPERATION = Operation("anneal", ARGUMENTS, anneal_cpu, launches, (KERNEL,))


def anneal(signals, counters, updates, linear, ramps) -> None:
    """Writes scheduled slots of each lane from its number of updates u = counters[p, updates].

    signals: float32[P, S]; counters: int64[P, C]; updates: int, a column; linear: int64[L, 4], columns of start, end,
    duration and result: start + (end - start) u / duration, `end` to the bit from `duration` on; ramps: int64[R, 3],
    columns of warmup, ramp and result: clip((u - warmup) / ramp, 0, 1). Lanes do not mix. Same bits on every backend.
    """
    OPERATION(signals, counters, updates, linear, ramps)
