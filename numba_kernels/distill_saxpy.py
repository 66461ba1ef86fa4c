"""The pull towards a snapshot: a SAXPY whose coefficient the kernel computes itself, from a table of signals.

A captured graph bakes in the scalars that a kernel was launched with. A coefficient computed on the host would keep for
ever the value it had at capture; read from device memory, it follows the table between replays.
"""

from __future__ import annotations

from numba import float32, uint32

from . import recovery
from .argument import declare, prefix
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 256
ARGUMENTS = declare(
    "gradient: float32[P, T], params: float32[P, T], best: float32[P, T], signals: float32[P, S], slots: int64[4], "
    "alpha: float32[P], count: int64"
)
_pull_cuda, _pull_cpu = for_cuda(recovery).pull, for_cpu(recovery).pull


@cuda_kernel(BLOCK)
def distill_saxpy_kernel(gradient, params, best, signals, slots, alpha, count):
    """Grid (P, count / BLOCK); a thread owns an entry and computes alpha for itself. 16 bytes moved an entry."""
    lane = uint32(cuda.blockIdx.x)
    i = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    health, largest = signals[lane, slots[0]], signals[lane, slots[1]]
    pull = _pull_cuda(health, largest, signals[lane, slots[2]], signals[lane, slots[3]])
    if i == 0:
        alpha[lane] = pull
    if pull != float32(0.0) and i < uint32(count):
        gradient[lane, i] = fma(pull, params[lane, i] - best[lane, i], gradient[lane, i])


@cpu_kernel
def distill_saxpy_cpu(gradient, params, best, signals, slots, alpha, count):
    for lane in range(gradient.shape[0]):
        health, largest = signals[lane, slots[0]], signals[lane, slots[1]]
        pull = _pull_cpu(health, largest, signals[lane, slots[2]], signals[lane, slots[3]])
        alpha[lane] = pull
        if pull == float32(0.0):
            continue
        for i in range(count):
            gradient[lane, i] = cpu_fma(pull, params[lane, i] - best[lane, i], gradient[lane, i])


KERNEL = CudaKernel(distill_saxpy_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    blocks = max(1, -(-tensors[-1] // BLOCK))
    return [Launch(KERNEL, (tensors[0].shape[0], blocks), tensors)]  # alpha is written for an empty row too


OPERATION = Operation("distill_saxpy", ARGUMENTS, distill_saxpy_cpu, launches, (KERNEL,))


def distill_saxpy(gradient, params, best, signals, slots, alpha, count=None) -> None:
    """gradient += alpha (params - best) with alpha = alpha_max x clip((h_on - health) / h_on, 0, 1), 0 if not armed.

    gradient, params, best: float32[P, T]; signals: float32[P, S]; slots: int64[4], the columns of health, alpha_max,
    h_on and armed; alpha: float32[P], written; count: only the first so many entries,
    None for all. A health that is NaN counts as 0: a member that cannot be measured is not healthy. By one fused
    multiply-add, so bit-equal to `saxpy` with the same alpha; where alpha is 0 no bit changes. Same bits on every
    backend.
    """
    OPERATION(gradient, params, best, signals, slots, alpha, prefix(count, gradient))
