"""Adding a multiple of one flat row to another, with one factor per lane that is read on the device."""

from __future__ import annotations

from numba import float32, int32

from .argument import declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 256
ARGUMENTS = declare("out: float32[P, T], coefficient: float32[P], x: float32[P, T]")


@cuda_kernel(BLOCK)
def saxpy_kernel(out, coefficient, x):
    """Grid (P, T / BLOCK); a thread owns an entry. No reduction; 12 bytes moved an entry, none where the factor is
    0."""
    lane = int32(cuda.blockIdx.x)
    i = int32(cuda.blockIdx.y) * int32(BLOCK) + int32(cuda.threadIdx.x)
    factor = coefficient[lane]
    if factor != float32(0.0) and i < out.shape[1]:
        out[lane, i] = fma(factor, x[lane, i], out[lane, i])


@cpu_kernel
def saxpy_cpu(out, coefficient, x):
    for lane in range(out.shape[0]):
        factor = coefficient[lane]
        if factor != float32(0.0):
            for i in range(out.shape[1]):
                out[lane, i] = cpu_fma(factor, x[lane, i], out[lane, i])


KERNEL = CudaKernel(saxpy_kernel, ARGUMENTS, BLOCK)


def launches(out, coefficient, x):
    lanes, total = out.shape
    return [Launch(KERNEL, (lanes, -(-total // BLOCK)), (out, coefficient, x))]


OPERATION = Operation("saxpy", ARGUMENTS, saxpy_cpu, launches, (KERNEL,))


def saxpy(out, coefficient, x) -> None:
    """out[p] = fma(coefficient[p], x[p], out[p]) where coefficient[p] != 0 (saxpy of the BLAS, one factor a lane).

    out, x: float32[P, T]; coefficient: float32[P]. Where the coefficient is 0 (of either sign) no bit of the lane
    changes, whatever x holds: a selection, since 0 * NaN is NaN. A NaN coefficient makes its own lane NaN. Entries do
    not mix, no sums. Same bits on every backend.
    """
    OPERATION(out, coefficient, x)
