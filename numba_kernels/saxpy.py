"""Adding a multiple of one flat row to another, with one factor per lane that is read on the device."""

from __future__ import annotations

from numba import float32, uint32

from .argument import declare, prefix
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK, DEPTH = 256, 4
ARGUMENTS = declare("out: float32[P, T], coefficient: float32[P], x: float32[P, T], count: int64")


@cuda_kernel(BLOCK)
def saxpy_kernel(out, coefficient, x, count):
    """Grid (P, count / 1024); a thread owns 4 entries. No reduction; 12 bytes moved an entry, none where the factor is
    0."""
    lane = uint32(cuda.blockIdx.x)
    factor, into, row = coefficient[lane], out[lane], x[lane]
    begin, last = uint32(cuda.blockIdx.y) * uint32(BLOCK * DEPTH) + uint32(cuda.threadIdx.x), uint32(count - 1)
    if factor == float32(0.0) or begin > last:
        return
    values = cuda.local.array(DEPTH, float32)
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        i = i if i <= last else begin
        values[k] = fma(factor, row[i], into[i])
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        if i <= last:
            into[i] = values[k]


@cpu_kernel
def saxpy_cpu(out, coefficient, x, count):
    for lane in range(out.shape[0]):
        factor = coefficient[lane]
        if factor != float32(0.0):
            for i in range(count):
                out[lane, i] = cpu_fma(factor, x[lane, i], out[lane, i])


KERNEL = CudaKernel(saxpy_kernel, ARGUMENTS, BLOCK)


def launches(out, coefficient, x, count):
    return [Launch(KERNEL, (out.shape[0], -(-count // (BLOCK * DEPTH))), (out, coefficient, x, count))]


OPERATION = Operation("saxpy", ARGUMENTS, saxpy_cpu, launches, (KERNEL,))


def saxpy(out, coefficient, x, count=None) -> None:
    """out[p] = fma(coefficient[p], x[p], out[p]) where coefficient[p] != 0 (saxpy of the BLAS, one factor a lane).

    out, x: float32[P, T]; coefficient: float32[P]; count: only the first so many entries, None for all. Where the
    coefficient is 0 (of either sign) no bit of the lane changes, whatever x holds: a selection, since 0 * NaN is NaN. A
    NaN coefficient makes its own lane NaN. Entries do not mix, no sums. Same bits on every backend.
    """
    OPERATION(out, coefficient, x, prefix(count, out))
