"""Observations: a row of the market table beside the last target as a one-hot vector."""

from __future__ import annotations

from numba import float32, uint32

from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel
from .launch import CudaKernel, Launch
from .operation import Operation

COLUMNS, ROWS = 32, 4  # of a block of threads
DEPTH = 4  # observations a warp, all in flight
BLOCK = COLUMNS * ROWS
TARGETS = 7
ARGUMENTS = declare("features: float32[R, F], row: int64[P, N], target: int64[P, N], out: float32[P, N, O]")


@cuda_kernel(BLOCK)
def observe_kernel(features, row, target, out):
    """Grid (P, N / 16); a warp owns 4 neighbouring observations. Each entry is read once and written once."""
    p, thread = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x)
    begin = (uint32(cuda.blockIdx.y) * uint32(ROWS) + thread // uint32(COLUMNS)) * uint32(DEPTH)
    states, count, width = uint32(row.shape[1]), uint32(features.shape[1]), uint32(out.shape[2])
    source, place = cuda.local.array(DEPTH, uint32), cuda.local.array(DEPTH, uint32)
    values, rows, targets, into = cuda.local.array(DEPTH, float32), row[p], target[p], out[p]
    for k in range(DEPTH):
        n = min(uint32(begin + uint32(k)), uint32(states - uint32(1)))
        source[k], place[k] = uint32(rows[n]), uint32(targets[n]) + count
    i = uint32(thread % uint32(COLUMNS))
    while i < width:
        for k in range(DEPTH):
            hot = float32(1.0) if i == place[k] else float32(0.0)
            values[k] = features[source[k], i] if i < count else hot
        for k in range(DEPTH):
            n = uint32(begin + uint32(k))
            if n < states:
                into[n, i] = values[k]
        i = uint32(i + uint32(COLUMNS))


@cpu_kernel
def observe_cpu(features, row, target, out):
    count = features.shape[1]
    for p in range(row.shape[0]):
        for n in range(row.shape[1]):
            source, into = features[row[p, n]], out[p, n]
            for i in range(count):
                into[i] = source[i]
            for i in range(TARGETS):
                into[count + i] = float32(1.0) if i == target[p, n] else float32(0.0)


KERNEL = CudaKernel(observe_kernel, ARGUMENTS, BLOCK)


def launches(features, row, target, out):
    lanes, states = row.shape
    return [Launch(KERNEL, (lanes, -(-states // (ROWS * DEPTH))), (features, row, target, out))]


def _require(sizes):
    if sizes["O"] != sizes["F"] + TARGETS:
        raise ArgumentError(f"observe(out): {sizes['O']} columns, {sizes['F']} features and {TARGETS} targets wanted")


OPERATION = Operation("observe", ARGUMENTS, observe_cpu, launches, (KERNEL,), _require)


def observe(features, row, target, out) -> None:
    """out[p, n] = features[row[p, n]], then the one-hot vector of target[p, n] among 7.

    features: float32[R, F]; row, target: int64[P, N], within 0..R-1 and 0..6, which is not checked; out: float32[P, N,
    F + 7]. No sums. Same bits on every backend.
    """
    OPERATION(features, row, target, out)
