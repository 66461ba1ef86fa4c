"""Bias and ReLU behind a matrix product, in place and in one pass."""

from __future__ import annotations

from numba import float32, int32

from .argument import declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel
from .launch import CudaKernel, Launch
from .operation import Operation

COLUMNS, ROWS, DEPTH = 32, 8, 8  # of a block of threads; DEPTH rows a thread
BLOCK = COLUMNS * ROWS
TILE = ROWS * DEPTH
ARGUMENTS = declare("x: float32[P, B, N], bias: float32[P:, N]")
ZERO = float32(0.0)


@cuda_kernel(BLOCK)
def bias_relu_kernel(x, bias):
    """Grid (P, B / 64, N / 32); a thread owns 8 entries of a column, four in flight. 8 bytes moved an entry."""
    p, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
    column = int32(cuda.blockIdx.z) * int32(COLUMNS) + thread % COLUMNS
    first = int32(cuda.blockIdx.y) * int32(TILE) + thread // COLUMNS
    rows = int32(x.shape[1])
    if column < x.shape[2]:
        shift = bias[p, column]
        for half in range(2):
            b = first + half * 4 * ROWS
            if b + 3 * ROWS < rows:
                v0, v1 = x[p, b, column] + shift, x[p, b + ROWS, column] + shift
                v2, v3 = x[p, b + 2 * ROWS, column] + shift, x[p, b + 3 * ROWS, column] + shift
                x[p, b, column] = ZERO if v0 <= ZERO else v0
                x[p, b + ROWS, column] = ZERO if v1 <= ZERO else v1
                x[p, b + 2 * ROWS, column] = ZERO if v2 <= ZERO else v2
                x[p, b + 3 * ROWS, column] = ZERO if v3 <= ZERO else v3
            else:
                for i in range(b, min(b + 4 * ROWS, rows), ROWS):
                    value = x[p, i, column] + shift
                    x[p, i, column] = ZERO if value <= ZERO else value


@cpu_kernel
def bias_relu_cpu(x, bias):
    for p in range(x.shape[0]):
        shift = bias[p]
        for b in range(x.shape[1]):
            row = x[p, b]
            for i in range(row.size):
                value = row[i] + shift[i]
                row[i] = ZERO if value <= ZERO else value


KERNEL = CudaKernel(bias_relu_kernel, ARGUMENTS, BLOCK)


def launches(x, bias):
    lanes, rows, columns = x.shape
    return [Launch(KERNEL, (lanes, -(-rows // TILE), -(-columns // COLUMNS)), (x, bias))]


OPERATION = Operation("bias_relu", ARGUMENTS, bias_relu_cpu, launches, (KERNEL,))


def bias_relu(x, bias) -> None:
    """x[p, b, n] = max(x[p, b, n] + bias[p, n], 0), in place.

    x: float32[P, B, N]; bias: float32[P, N], whose lanes may lie apart. A NaN stays NaN. Entries do not mix, no sums.
    Same bits on every backend.
    """
    OPERATION(x, bias)
