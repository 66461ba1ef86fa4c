"""Euclidean norms of slices of flat parameter rows: the gradient decomposition."""

from __future__ import annotations

import math

import numpy as np
from numba import float32, uint32

from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation
from .reduction import sum_lanes_cpu, sum_lanes_cuda

LANES = 128
ARGUMENTS = declare("rows: float32[C, P, T], starts: int64[S+1], out: float32[C, P, S]")


@cuda_kernel(LANES)
def slice_norms_kernel(rows, starts, out):
    """Grid (P, C, S); a block reduces one slice of one row. Every entry is read once: 4 bytes an entry."""
    partial = cuda.shared.array(LANES, float32)
    thread, piece = uint32(cuda.threadIdx.x), uint32(cuda.blockIdx.z)
    lane, component = uint32(cuda.blockIdx.x), uint32(cuda.blockIdx.y)
    row, total = rows[component, lane], float32(0.0)
    stop = uint32(max(min(starts[piece + uint32(1)], rows.shape[2]), 0))
    i = uint32(max(starts[piece], 0)) + thread
    while i + uint32(7 * LANES) < stop:
        a, b = row[i], row[i + uint32(LANES)]
        c, d = row[i + uint32(2 * LANES)], row[i + uint32(3 * LANES)]
        e, f = row[i + uint32(4 * LANES)], row[i + uint32(5 * LANES)]
        g, h = row[i + uint32(6 * LANES)], row[i + uint32(7 * LANES)]
        total = fma(d, d, fma(c, c, fma(b, b, fma(a, a, total))))
        total = fma(h, h, fma(g, g, fma(f, f, fma(e, e, total))))
        i = uint32(i + uint32(8 * LANES))
    while i < stop:
        total = fma(row[i], row[i], total)
        i = uint32(i + uint32(LANES))
    partial[thread] = total
    sum_lanes_cuda(partial, thread, LANES)
    if thread == 0:
        out[component, lane, piece] = float32(math.sqrt(partial[0]))


@cpu_kernel
def slice_norms_cpu(rows, starts, out):
    total = np.empty(LANES, np.float32)
    for component in range(rows.shape[0]):
        for lane in range(rows.shape[1]):
            for piece in range(out.shape[2]):
                start = max(starts[piece], 0)
                stop = max(min(starts[piece + 1], rows.shape[2]), start)
                entries = rows[component, lane, start:stop]
                total[:] = float32(0.0)
                first = 0
                while first + 4 * LANES <= entries.size:  # four rows a pass: a quarter of the accumulator traffic
                    for t in range(LANES):
                        a, b = entries[first + t], entries[first + LANES + t]
                        c, d = entries[first + 2 * LANES + t], entries[first + 3 * LANES + t]
                        total[t] = cpu_fma(d, d, cpu_fma(c, c, cpu_fma(b, b, cpu_fma(a, a, total[t]))))
                    first += 4 * LANES
                while first < entries.size:
                    for t in range(min(LANES, entries.size - first)):
                        value = entries[first + t]
                        total[t] = cpu_fma(value, value, total[t])
                    first += LANES
                out[component, lane, piece] = math.sqrt(sum_lanes_cpu(total))


KERNEL = CudaKernel(slice_norms_kernel, ARGUMENTS, LANES)


def launches(rows, starts, out):
    components, lanes, slices = out.shape
    return [Launch(KERNEL, (lanes, components, slices), (rows, starts, out))]


def _require(sizes):
    if sizes["S+1"] != sizes["S"] + 1:
        raise ArgumentError(
            f"slice_norms(starts): {sizes['S+1']} bounds for {sizes['S']} slices, one more than slices wanted"
        )


OPERATION = Operation("slice_norms", ARGUMENTS, slice_norms_cpu, launches, (KERNEL,), _require)


def slice_norms(rows, starts, out) -> None:
    """out[c, p, s] = sqrt(sum of rows[c, p, starts[s]:starts[s+1]]^2); an empty slice gives 0.

    rows: float32[C, P, T]; starts: int64[S+1], rising, within 0..T (what lies outside is not read); out: float32[C, P,
    S]. Sum: 128 strided lanes by fused multiply-add, then a halving tree, so the result does not depend on the grid or
    the device. Same bits on every backend. A NaN stays in its own row and slice. Squares overflow above 1.8e19.
    """
    OPERATION(rows, starts, out)
