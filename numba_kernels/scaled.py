"""A multiple of one flat row written over another, with one factor per lane that is read on the device."""

from __future__ import annotations

import torch
from numba import float32, uint32

from . import pairs
from .argument import declare, prefix
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK, DEPTH = 256, 4
ARGUMENTS = declare("out: float32[P, T], coefficient: float32[P], x: float32[P, T], count: int64")
WORDS = declare("out: int64[P, H], coefficient: float32[P], x: int64[P, H], words: int64")
ZERO = float32(0.0)

_on_cuda = for_cuda(pairs)
_first, _second, _joined = _on_cuda.first, _on_cuda.second, _on_cuda.joined


@cuda_kernel(BLOCK)
def scaled_kernel(out, coefficient, x, words):
    """Grid (P, count / 2048); a thread owns 4 pairs of entries. No reduction; 8 bytes moved an entry."""
    lane = uint32(cuda.blockIdx.x)
    factor, into, row = coefficient[lane], out[lane], x[lane]
    begin = uint32(cuda.blockIdx.y) * uint32(BLOCK * DEPTH) + uint32(cuda.threadIdx.x)
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        if i < uint32(words):
            word = row[i]
            low, high = factor * _first(word), factor * _second(word)
            into[i] = _joined(low if factor != ZERO else ZERO, high if factor != ZERO else ZERO)


@cpu_kernel
def scaled_cpu(out, coefficient, x, count):
    for lane in range(out.shape[0]):
        factor = coefficient[lane]
        for i in range(count):
            out[lane, i] = factor * x[lane, i] if factor != float32(0.0) else float32(0.0)


KERNEL = CudaKernel(scaled_kernel, WORDS, BLOCK)


def launches(out, coefficient, x, count):
    values = (out.view(torch.int64), coefficient, x.view(torch.int64), count // 2)
    return [Launch(KERNEL, (out.shape[0], -(-count // (2 * BLOCK * DEPTH))), values)]


OPERATION = Operation("scaled", ARGUMENTS, scaled_cpu, launches, (KERNEL,))


def scaled(out, coefficient, x, count=None) -> None:
    """out[p] = coefficient[p] x[p], and 0 where coefficient[p] is 0, whatever x holds.

    out, x: float32[P, T]; coefficient: float32[P]; T even; count: only the first so many entries, an even number, None
    for all. Entries do not mix, no sums. Same bits on every backend.
    """
    OPERATION(out, coefficient, x, prefix(count, out))
