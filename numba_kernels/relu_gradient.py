"""The way back through a dense layer's bias and ReLU: mask the gradient and sum it over the samples, in one pass."""

from __future__ import annotations

import numpy as np
from numba import float32, int32

from .argument import ArgumentError, declare
from .cpu_target import cpu_function, cpu_kernel
from .cuda_target import cuda, cuda_kernel
from .launch import CudaKernel, Launch
from .operation import Operation
from .reduction import sum_columns_cpu, sum_columns_cuda

COLUMNS, LANES = 32, 16
BLOCK = COLUMNS * LANES
RELU_ARGUMENTS = declare("gradient: float32[P, B, N], output: float32[P:, B, N], bias_gradient: float32[P:, N]")
BIAS_ARGUMENTS = declare("gradient: float32[P, B, W], first: int64, bias_gradient: float32[P:, N]")
ZERO = float32(0.0)


@cuda_kernel(BLOCK)
def relu_gradient_kernel(gradient, output, bias_gradient):
    """Grid (P, N / 32); a warp owns 32 columns of every 16th sample, four in flight. 12 bytes moved an entry."""
    partial = cuda.shared.array(BLOCK, float32)
    p, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
    column, lane = int32(cuda.blockIdx.y) * int32(COLUMNS) + thread % COLUMNS, thread // COLUMNS
    total, b, rows = ZERO, lane, int32(gradient.shape[1])
    if column < gradient.shape[2]:
        while b + 3 * LANES < rows:
            d0, d1 = gradient[p, b, column], gradient[p, b + LANES, column]
            d2, d3 = gradient[p, b + 2 * LANES, column], gradient[p, b + 3 * LANES, column]
            d0 = ZERO if output[p, b, column] <= ZERO else d0
            d1 = ZERO if output[p, b + LANES, column] <= ZERO else d1
            d2 = ZERO if output[p, b + 2 * LANES, column] <= ZERO else d2
            d3 = ZERO if output[p, b + 3 * LANES, column] <= ZERO else d3
            gradient[p, b, column], gradient[p, b + LANES, column] = d0, d1
            gradient[p, b + 2 * LANES, column], gradient[p, b + 3 * LANES, column] = d2, d3
            total = total + d0 + d1 + d2 + d3
            b += 4 * LANES
        while b < rows:
            d = ZERO if output[p, b, column] <= ZERO else gradient[p, b, column]
            gradient[p, b, column] = d
            total += d
            b += LANES
    partial[thread] = total
    sum_columns_cuda(partial, thread, COLUMNS, LANES)
    if lane == 0 and column < gradient.shape[2]:
        bias_gradient[p, column] = partial[thread]


@cuda_kernel(BLOCK)
def bias_gradient_kernel(gradient, first, bias_gradient):
    """Grid (P, N / 32); a warp owns 32 columns of every 16th sample. 4 bytes read an entry."""
    partial = cuda.shared.array(BLOCK, float32)
    p, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
    column, lane = int32(cuda.blockIdx.y) * int32(COLUMNS) + thread % COLUMNS, thread // COLUMNS
    total = ZERO
    if column < bias_gradient.shape[1]:
        for b in range(lane, gradient.shape[1], LANES):
            total += gradient[p, b, first + column]
    partial[thread] = total
    sum_columns_cuda(partial, thread, COLUMNS, LANES)
    if lane == 0 and column < bias_gradient.shape[1]:
        bias_gradient[p, column] = partial[thread]


@cpu_function
def _add_row(total, row):
    for i in range(total.size):
        total[i] += row[i]


@cpu_kernel
def relu_gradient_cpu(gradient, output, bias_gradient):
    lanes = np.empty((LANES, gradient.shape[2]), np.float32)
    for p in range(gradient.shape[0]):
        lanes[:] = ZERO
        for b in range(gradient.shape[1]):
            row, out, total = gradient[p, b], output[p, b], lanes[b % LANES]
            for i in range(row.size):
                d = ZERO if out[i] <= ZERO else row[i]
                row[i] = d
                total[i] += d
        sum_columns_cpu(lanes)
        bias_gradient[p] = lanes[0]


@cpu_kernel
def bias_gradient_cpu(gradient, first, bias_gradient):
    count = bias_gradient.shape[1]
    lanes = np.empty((LANES, count), np.float32)
    for p in range(gradient.shape[0]):
        lanes[:] = ZERO
        for b in range(gradient.shape[1]):
            _add_row(lanes[b % LANES], gradient[p, b, first : first + count])
        sum_columns_cpu(lanes)
        bias_gradient[p] = lanes[0]


RELU_KERNEL = CudaKernel(relu_gradient_kernel, RELU_ARGUMENTS, BLOCK)
BIAS_KERNEL = CudaKernel(bias_gradient_kernel, BIAS_ARGUMENTS, BLOCK)


def _relu_launches(gradient, output, bias_gradient):
    lanes, _, columns = gradient.shape
    return [Launch(RELU_KERNEL, (lanes, -(-columns // COLUMNS)), (gradient, output, bias_gradient))]


def _bias_launches(gradient, first, bias_gradient):
    lanes, columns = bias_gradient.shape
    return [Launch(BIAS_KERNEL, (lanes, -(-columns // COLUMNS)), (gradient, first, bias_gradient))]


RELU_GRADIENT = Operation("relu_gradient", RELU_ARGUMENTS, relu_gradient_cpu, _relu_launches, (RELU_KERNEL,))
BIAS_GRADIENT = Operation("bias_gradient", BIAS_ARGUMENTS, bias_gradient_cpu, _bias_launches, (BIAS_KERNEL,))


def relu_gradient(gradient, output, bias_gradient) -> None:
    """gradient = 0 where output <= 0, in place; bias_gradient[p, n] = sum_b gradient[p, b, n] afterwards.

    gradient, output (of the ReLU): float32[P, B, N]; bias_gradient: float32[P, N]; the lanes of the last two may lie
    apart. By
    selection: an infinite gradient at a closed unit becomes 0. Sums run over 16 strided lanes of samples, then a
    halving tree. Same bits on every backend.
    """
    RELU_GRADIENT(gradient, output, bias_gradient)


def bias_gradient(gradient, first, out) -> None:
    """out[p, n] = sum_b gradient[p, b, first + n] for the N columns of `out`.

    gradient: float32[P, B, W]; first: int, at most W - N; out: float32[P, N], whose lanes may lie apart. Sums as in
    `relu_gradient`. Same bits on every backend.
    """
    if not 0 <= first <= gradient.shape[-1] - out.shape[-1]:
        columns = f"columns {first} to {first + out.shape[-1]} of {gradient.shape[-1]}"
        raise ArgumentError(f"bias_gradient(first): {columns}")
    BIAS_GRADIENT(gradient, first, out)
