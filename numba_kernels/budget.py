"""The norm of C51's gradient and the factor that keeps it within its budget."""

from __future__ import annotations

from numba import uint32

from . import step_arithmetic
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
ARGUMENTS = declare(
    "norms: float32[P, K], signals: float32[P, S], slots: int64[2], norm: float32[P], scale: float32[P], "
    "kept: float32[P]"
)
_on_cuda, _on_cpu = for_cuda(step_arithmetic), for_cpu(step_arithmetic)
_whole_cuda, _scale_cuda = _on_cuda.whole, _on_cuda.budget_scale
_whole_cpu, _scale_cpu = _on_cpu.whole, _on_cpu.budget_scale


@cuda_kernel(BLOCK)
def budget_kernel(norms, signals, slots, norm, scale, kept):
    """Grid (P / 64); a thread owns a lane and sums its norms in order."""
    lane = uint32(cuda.blockIdx.x) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if lane >= uint32(norms.shape[0]):
        return
    raw = _whole_cuda(norms[lane])
    factor = _scale_cuda(raw, signals[lane, uint32(slots[0])], signals[lane, uint32(slots[1])])
    norm[lane], scale[lane], kept[lane] = raw, factor, raw * factor


@cpu_kernel
def budget_cpu(norms, signals, slots, norm, scale, kept):
    for lane in range(norms.shape[0]):
        raw = _whole_cpu(norms[lane])
        factor = _scale_cpu(raw, signals[lane, slots[0]], signals[lane, slots[1]])
        norm[lane], scale[lane], kept[lane] = raw, factor, raw * factor


KERNEL = CudaKernel(budget_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    return [Launch(KERNEL, (-(-tensors[0].shape[0] // BLOCK),), tensors)]


OPERATION = Operation("budget", ARGUMENTS, budget_cpu, launches, (KERNEL,))


def budget(norms, signals, slots, norm, scale, kept) -> None:
    """norm = sqrt(sum_k norms_k^2), scale = min(1, share x applied / norm), kept = norm x scale.

    norms: float32[P, K] of the slices of a row; signals: float32[P, S]; slots: int64[2], the columns of the share and
    of the applied norm; norm, scale, kept: float32[P], written. scale is 1 until a norm was applied and NaN for a norm
    that is not finite: scaled to 0 it would vanish, and the member train on as if nothing had been. Same bits on every
    backend.
    """
    OPERATION(norms, signals, slots, norm, scale, kept)
