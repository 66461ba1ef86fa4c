"""Adding a multiple of one flat row to another, with one factor per lane that is read on the device."""

from __future__ import annotations

import torch
from numba import float32, int64, uint32

from . import pairs
from .argument import declare, prefix
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK, DEPTH = 256, 2
ARGUMENTS = declare("out: float32[P, T], coefficient: float32[P], x: float32[P, T], count: int64")
WORDS = declare("out: int64[P, H], coefficient: float32[P], x: int64[P, H], words: int64")

_on_cuda = for_cuda(pairs)
_first, _second, _joined = _on_cuda.first, _on_cuda.second, _on_cuda.joined


@cuda_kernel(BLOCK)
def saxpy_kernel(out, coefficient, x, words):
    """Grid (P, count / 1024); a thread owns 2 pairs of entries. No reduction; 12 bytes moved an entry, none where the
    factor is 0."""
    lane = uint32(cuda.blockIdx.x)
    factor, into, row = coefficient[lane], out[lane], x[lane]
    begin, last = uint32(cuda.blockIdx.y) * uint32(BLOCK * DEPTH) + uint32(cuda.threadIdx.x), uint32(words - 1)
    if factor == float32(0.0) or begin > last:
        return
    values = cuda.local.array(DEPTH, int64)
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        i = i if i <= last else begin
        word, other = row[i], into[i]
        low, high = fma(factor, _first(word), _first(other)), fma(factor, _second(word), _second(other))
        values[k] = _joined(low, high)
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


KERNEL = CudaKernel(saxpy_kernel, WORDS, BLOCK)


def launches(out, coefficient, x, count):
    values = (out.view(torch.int64), coefficient, x.view(torch.int64), count // 2)
    return [Launch(KERNEL, (out.shape[0], -(-count // (2 * BLOCK * DEPTH))), values)]


OPERATION = Operation("saxpy", ARGUMENTS, saxpy_cpu, launches, (KERNEL,))


def saxpy(out, coefficient, x, count=None) -> None:
    """out[p] = fma(coefficient[p], x[p], out[p]) where coefficient[p] != 0 (saxpy of the BLAS, one factor a lane).

    out, x: float32[P, T]; coefficient: float32[P]; T even; count: only the first so many entries, an even number, None
    for all. Where the coefficient is 0 (of either sign) no bit of the lane changes, whatever x holds: a selection,
    since 0 * NaN is NaN. A NaN coefficient makes its own lane NaN. Entries do not mix, no sums. Same bits on every
    backend.
    """
    OPERATION(out, coefficient, x, prefix(count, out))
