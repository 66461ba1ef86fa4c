"""All that an update does with scalars between the gradient and Adam: applied norm, freezing, clip, coefficients."""

from __future__ import annotations

from numba import int32, uint32

from . import step_arithmetic
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
ARGUMENTS = declare(
    "norms: float32[P, K], loss: float32[P], signals: float32[P, S], counters: int64[P, C], slots: int64[10], "
    "columns: int64[3], norm: float32[P], factor: float32[P], alive: int32[P], coefficients: float32[P, 7]"
)
SLOTS = (
    "applied_norm_ema",
    "norm_ema_rate",
    "clip_norm",
    "learning_rate",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "target_rate",
    "adam_beta1_power",
    "adam_beta2_power",
)
COLUMNS = ("updates", "adam_steps", "frozen_at")


_on_cuda, _on_cpu = for_cuda(step_arithmetic), for_cpu(step_arithmetic)
_whole_cuda, _within_cuda, _observe_cuda = _on_cuda.whole, _on_cuda.within, _on_cuda.observe_norm
_advance_cuda, _write_cuda = _on_cuda.advance_powers, _on_cuda.write_coefficients
_whole_cpu, _within_cpu, _observe_cpu = _on_cpu.whole, _on_cpu.within, _on_cpu.observe_norm
_advance_cpu, _write_cpu = _on_cpu.advance_powers, _on_cpu.write_coefficients


@cuda_kernel(BLOCK)
def clip_kernel(norms, loss, signals, counters, slots, columns, norm, factor, alive, coefficients):
    """Grid (P / 64); a thread owns a lane and sums its norms in order."""
    lane = uint32(cuda.blockIdx.x) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if lane >= uint32(norms.shape[0]):
        return
    row, counts, total = signals[lane], counters[lane], _whole_cuda(norms[lane])
    living = _observe_cuda(row, counts, slots, columns, total, loss[lane])
    if living == 1:
        _advance_cuda(row, counts, slots, columns)
    kept = _within_cuda(total, row[uint32(slots[2])])
    norm[lane], factor[lane], alive[lane] = total, kept, int32(living)
    _write_cuda(row, slots, kept, coefficients[lane])


@cpu_kernel
def clip_cpu(norms, loss, signals, counters, slots, columns, norm, factor, alive, coefficients):
    for lane in range(norms.shape[0]):
        row, counts, total = signals[lane], counters[lane], _whole_cpu(norms[lane])
        living = _observe_cpu(row, counts, slots, columns, total, loss[lane])
        if living == 1:
            _advance_cpu(row, counts, slots, columns)
        kept = _within_cpu(total, row[slots[2]])
        norm[lane], factor[lane], alive[lane] = total, kept, int32(living)
        _write_cpu(row, slots, kept, coefficients[lane])


KERNEL = CudaKernel(clip_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    return [Launch(KERNEL, (-(-tensors[0].shape[0] // BLOCK),), tensors)]


OPERATION = Operation("clip", ARGUMENTS, clip_cpu, launches, (KERNEL,))


def clip(norms, loss, signals, counters, slots, columns, norm, factor, alive, coefficients) -> None:
    """norm = sqrt(sum_k norms_k^2), factor = min(1, clip / norm), alive: 1 where the member may learn.

    norms: float32[P, K] of the slices of the gradient; loss: float32[P]; signals: float32[P, S] and counters: int64[P,
    C], updated in place; slots: int64[10], the columns of `SLOTS`; columns: int64[3], those of `COLUMNS`; norm, factor:
    float32[P]; alive: int32[P]; coefficients: float32[P, 7], as `adam_step` takes them.

    A finite norm moves its running mean. The first norm or loss that is not finite writes the number of updates to
    frozen_at, for ever. A member alive has its beta powers and Adam steps moved on. Same bits on every backend.
    """
    OPERATION(norms, loss, signals, counters, slots, columns, norm, factor, alive, coefficients)
