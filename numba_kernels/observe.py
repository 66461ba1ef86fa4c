"""Observations: a row of the market table beside the last target as a one-hot vector."""

from __future__ import annotations

from numba import float32, int32

from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel
from .launch import CudaKernel, Launch
from .operation import Operation

COLUMNS, ROWS = 32, 8  # of a block of threads
BLOCK = COLUMNS * ROWS
TARGETS = 7
ARGUMENTS = declare("features: float32[R, F], row: int64[P, N], target: int64[P, N], out: float32[P, N, O]")


@cuda_kernel(BLOCK)
def observe_kernel(features, row, target, out):
    """Grid (P, N / 8); a warp owns an observation. Each entry is read once and written once."""
    p, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
    n = int32(cuda.blockIdx.y) * int32(ROWS) + thread // COLUMNS
    if n >= row.shape[1]:
        return
    count, source, place = int32(features.shape[1]), row[p, n], int32(target[p, n])
    for i in range(thread % COLUMNS, out.shape[2], COLUMNS):
        if i < count:
            out[p, n, i] = features[source, i]
        else:
            out[p, n, i] = float32(1.0) if i - count == place else float32(0.0)


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
    return [Launch(KERNEL, (lanes, -(-states // ROWS)), (features, row, target, out))]


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
