"""G6 branch independence: squared cross-correlation of two branches' features over a batch."""

from __future__ import annotations

import numpy as np
import torch
from numba import float32, int32

from . import correlation
from .argument import ArgumentError, declare
from .cpu_target import cpu_function, cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation
from .reduction import sum_lanes_cpu, sum_lanes_cuda

COLUMNS = 64  # columns of a block of the moments kernel, one a thread
TILE = 16  # side of the square that a block of the product kernels computes
SQUARE = TILE * TILE
LANES = 128

ARGUMENTS = declare(
    "x: float32[P, B, H1], y: float32[P, B, H2], active: int32[P], value: float32[P], grad_x: float32[P, B, H1], "
    "grad_y: float32[P, B, H2]"
)

_on_cuda = for_cuda(correlation)
_inverse_cuda, _standardise_cuda, _gradient_cuda = _on_cuda.inverse_deviation, _on_cuda.standardise, _on_cuda.gradient
_on_cpu = for_cpu(correlation)
_inverse_cpu, _standardise_cpu, _gradient_cpu = _on_cpu.inverse_deviation, _on_cpu.standardise, _on_cpu.gradient


@cuda_kernel(COLUMNS)
def column_moments_kernel(x, active, moments):
    """Grid (P, columns / COLUMNS); a thread owns a column and writes its mean and 1/sd. Sums run over b in turn."""
    lane = int32(cuda.blockIdx.x)
    column = int32(cuda.blockIdx.y) * int32(COLUMNS) + int32(cuda.threadIdx.x)
    if active[lane] == 0 or column >= x.shape[2]:
        return
    origin, samples = x[lane, 0, column], x.shape[1]
    total, squares = float32(0.0), float32(0.0)
    for b in range(samples):
        total += x[lane, b, column] - origin
    mean = origin + total / float32(samples)
    for b in range(samples):
        gap = x[lane, b, column] - mean
        squares = fma(gap, gap, squares)
    moments[lane, 0, column] = mean
    moments[lane, 1, column] = _inverse_cuda(squares, samples)


@cuda_kernel(SQUARE)
def cross_covariance_kernel(x, x_moments, y, y_moments, active, covariance):
    """Grid (P, H1 / TILE, H2 / TILE); a block computes a square of C, its sums over b in turn, through shared
    memory."""
    x_part = cuda.shared.array((TILE, TILE), float32)
    y_part = cuda.shared.array((TILE, TILE), float32)
    lane = int32(cuda.blockIdx.x)
    if active[lane] == 0:
        return
    column, line = int32(cuda.threadIdx.x) % int32(TILE), int32(cuda.threadIdx.x) // int32(TILE)
    j, k = int32(cuda.blockIdx.y) * int32(TILE), int32(cuda.blockIdx.z) * int32(TILE)
    samples, width, height = x.shape[1], x.shape[2], y.shape[2]
    total = float32(0.0)
    for start in range(0, samples, TILE):
        b = start + line
        inside = b < samples
        x_part[line, column] = float32(0.0)
        y_part[line, column] = float32(0.0)
        if inside and j + column < width:
            x_part[line, column] = _standardise_cuda(
                x[lane, b, j + column], x_moments[lane, 0, j + column], x_moments[lane, 1, j + column]
            )
        if inside and k + column < height:
            y_part[line, column] = _standardise_cuda(
                y[lane, b, k + column], y_moments[lane, 0, k + column], y_moments[lane, 1, k + column]
            )
        cuda.syncthreads()
        for i in range(TILE):
            total = fma(x_part[i, line], y_part[i, column], total)
        cuda.syncthreads()
    if j + line < width and k + column < height:
        covariance[lane, j + line, k + column] = total / float32(samples - 1)


@cuda_kernel(LANES)
def covariance_squares_kernel(covariance, active, x_squares, y_squares, value):
    """Grid P; a block writes the sums of squares of C's rows and columns (each in turn) and their total (lanes and
    tree)."""
    partial = cuda.shared.array(LANES, float32)
    thread, lane = int32(cuda.threadIdx.x), int32(cuda.blockIdx.x)
    if active[lane] == 0:
        return
    width, height = covariance.shape[1], covariance.shape[2]
    for k in range(thread, height, LANES):
        squares = float32(0.0)
        for j in range(width):
            squares = fma(covariance[lane, j, k], covariance[lane, j, k], squares)
        y_squares[lane, k] = squares
    total = float32(0.0)
    for j in range(thread, width, LANES):
        squares = float32(0.0)
        for k in range(height):
            squares = fma(covariance[lane, j, k], covariance[lane, j, k], squares)
        x_squares[lane, j] = squares
        total += squares
    partial[thread] = total
    sum_lanes_cuda(partial, thread, LANES)
    if thread == 0:
        value[lane] = partial[0]


@cuda_kernel(SQUARE)
def branch_gradient_kernel(own, own_moments, own_squares, other, other_moments, covariance, turned, active, grad):
    """Grid (P, B / TILE, columns / TILE); the gradient of one branch, sums over the other branch's columns in turn.

    covariance[lane, own, other], or [lane, other, own] when `turned` is 1.
    """
    other_part = cuda.shared.array((TILE, TILE), float32)
    covariance_part = cuda.shared.array((TILE, TILE), float32)
    lane = int32(cuda.blockIdx.x)
    if active[lane] == 0:
        return
    column, line = int32(cuda.threadIdx.x) % int32(TILE), int32(cuda.threadIdx.x) // int32(TILE)
    b, j = int32(cuda.blockIdx.y) * int32(TILE) + line, int32(cuda.blockIdx.z) * int32(TILE)
    samples, width, height = own.shape[1], own.shape[2], other.shape[2]
    projected = float32(0.0)
    for start in range(0, height, TILE):
        k = start + column
        other_part[line, column] = float32(0.0)
        if b < samples and k < height:
            other_part[line, column] = _standardise_cuda(
                other[lane, b, k], other_moments[lane, 0, k], other_moments[lane, 1, k]
            )
        entry = float32(0.0)
        if turned == 1:  # both ways neighbouring threads read neighbouring entries
            if start + line < height and j + column < width:
                entry = covariance[lane, start + line, j + column]
            covariance_part[line, column] = entry
        else:
            if j + line < width and k < height:
                entry = covariance[lane, j + line, k]
            covariance_part[column, line] = entry
        cuda.syncthreads()
        for i in range(TILE):
            projected = fma(other_part[line, i], covariance_part[i, column], projected)
        cuda.syncthreads()
    if b < samples and j + column < width:
        inverse = own_moments[lane, 1, j + column]
        value = _standardise_cuda(own[lane, b, j + column], own_moments[lane, 0, j + column], inverse)
        grad[lane, b, j + column] = _gradient_cuda(projected, value, own_squares[lane, j + column], inverse, samples)


@cpu_function
def _standardise_columns(x, standard, inverse):
    """Fills `standard` with x standardised by column and `inverse` with 1/sd; sums over b in turn, columns side by
    side."""
    samples, width = x.shape
    mean = np.zeros(width, np.float32)
    squares = np.zeros(width, np.float32)
    for b in range(samples):
        for c in range(width):
            mean[c] += x[b, c] - x[0, c]
    for c in range(width):
        mean[c] = x[0, c] + mean[c] / float32(samples)
    for b in range(samples):
        for c in range(width):
            gap = x[b, c] - mean[c]
            squares[c] = cpu_fma(gap, gap, squares[c])
    for c in range(width):
        inverse[c] = _inverse_cpu(squares[c], samples)
    for b in range(samples):
        for c in range(width):
            standard[b, c] = _standardise_cpu(x[b, c], mean[c], inverse[c])


@cpu_function
def _add_products(left, right, product):
    """product[j, k] += sum over b in turn of left[b, j] right[b, k]."""
    quads = left.shape[0] // 4 * 4
    for b in range(0, quads, 4):  # four samples a pass: a quarter of the traffic, the same order
        r0, r1, r2, r3 = right[b], right[b + 1], right[b + 2], right[b + 3]
        for j in range(left.shape[1]):
            l0, l1, l2, l3 = left[b, j], left[b + 1, j], left[b + 2, j], left[b + 3, j]
            row = product[j]
            for k in range(row.size):
                row[k] = cpu_fma(l3, r3[k], cpu_fma(l2, r2[k], cpu_fma(l1, r1[k], cpu_fma(l0, r0[k], row[k]))))
    for b in range(quads, left.shape[0]):
        for j in range(left.shape[1]):
            for k in range(right.shape[1]):
                product[j, k] = cpu_fma(left[b, j], right[b, k], product[j, k])


@cpu_function
def _turn(matrix, turned):
    """turned = matrix'."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            turned[j, i] = matrix[i, j]


@cpu_function
def _square_columns(matrix, squares):
    """squares[k] = sum over j in turn of matrix[j, k]^2."""
    squares[:] = float32(0.0)
    for j in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            squares[k] = cpu_fma(matrix[j, k], matrix[j, k], squares[k])


@cpu_function
def _write_gradient(own, squares, inverse, other_turned, covariance, grad):
    """covariance[other, own]; other_turned[other, b]."""
    grad[:] = float32(0.0)
    _add_products(other_turned, covariance, grad)
    for b in range(own.shape[0]):
        for j in range(own.shape[1]):
            grad[b, j] = _gradient_cpu(grad[b, j], own[b, j], squares[j], inverse[j], own.shape[0])


@cpu_kernel
def branch_independence_cpu(x, y, active, value, grad_x, grad_y):
    """Pairs hold the two branches; loops over them, because every call that is written out is compiled once more."""
    samples, width, height = x.shape[1], x.shape[2], y.shape[2]
    standard = np.empty((samples, width), np.float32), np.empty((samples, height), np.float32)
    turned = np.empty((width, samples), np.float32), np.empty((height, samples), np.float32)
    inverse = np.empty(width, np.float32), np.empty(height, np.float32)
    squares = np.empty(width, np.float32), np.empty(height, np.float32)
    covariance = np.empty((height, width), np.float32), np.empty((width, height), np.float32)  # [other, own]
    total = np.empty(LANES, np.float32)
    for lane in range(x.shape[0]):
        if active[lane] == 0:
            continue
        features, gradients = (x[lane], y[lane]), (grad_x[lane], grad_y[lane])
        for side in range(2):
            _standardise_columns(features[side], standard[side], inverse[side])
            _turn(standard[side], turned[side])
        covariance[1][:] = float32(0.0)
        _add_products(standard[0], standard[1], covariance[1])
        for j in range(width):
            for k in range(height):
                covariance[1][j, k] /= float32(samples - 1)
        _turn(covariance[1], covariance[0])
        for side in range(2):
            _square_columns(covariance[side], squares[side])
            _write_gradient(
                standard[side], squares[side], inverse[side], turned[1 - side], covariance[side], gradients[side]
            )
        total[:] = float32(0.0)
        for j in range(width):
            total[j % LANES] += squares[0][j]
        value[lane] = sum_lanes_cpu(total)


MOMENTS = CudaKernel(
    column_moments_kernel, declare("x: float32[P, B, H], active: int32[P], moments: float32[P, 2, H]"), COLUMNS
)
COVARIANCE = CudaKernel(
    cross_covariance_kernel,
    declare(
        "x: float32[P, B, H1], x_moments: float32[P, 2, H1], y: float32[P, B, H2], y_moments: float32[P, 2, H2], "
        "active: int32[P], covariance: float32[P, H1, H2]"
    ),
    SQUARE,
)
SQUARES = CudaKernel(
    covariance_squares_kernel,
    declare(
        "covariance: float32[P, H1, H2], active: int32[P], x_squares: float32[P, H1], y_squares: float32[P, H2], "
        "value: float32[P]"
    ),
    LANES,
)
GRADIENT = CudaKernel(
    branch_gradient_kernel,
    declare(
        "own: float32[P, B, H], own_moments: float32[P, 2, H], own_squares: float32[P, H], other: float32[P, B, G], "
        "other_moments: float32[P, 2, G], covariance: float32[P, I, J], turned: int32, active: int32[P], "
        "grad: float32[P, B, H]"
    ),
    SQUARE,
)


def launches(x, y, active, value, grad_x, grad_y):
    lanes, samples, width = x.shape
    height = y.shape[2]
    empty = lambda *shape: torch.empty(shape, dtype=torch.float32, device=x.device)
    x_moments, y_moments = empty(lanes, 2, width), empty(lanes, 2, height)
    x_squares, y_squares, covariance = empty(lanes, width), empty(lanes, height), empty(lanes, width, height)
    rows, columns, others = -(-samples // TILE), -(-width // TILE), -(-height // TILE)
    x_side, y_side = (x, x_moments), (y, y_moments)
    return [
        Launch(MOMENTS, (lanes, -(-width // COLUMNS)), (x, active, x_moments)),
        Launch(MOMENTS, (lanes, -(-height // COLUMNS)), (y, active, y_moments)),
        Launch(COVARIANCE, (lanes, columns, others), (*x_side, *y_side, active, covariance)),
        Launch(SQUARES, (lanes,), (covariance, active, x_squares, y_squares, value)),
        Launch(GRADIENT, (lanes, rows, columns), (*x_side, x_squares, *y_side, covariance, 0, active, grad_x)),
        Launch(GRADIENT, (lanes, rows, others), (*y_side, y_squares, *x_side, covariance, 1, active, grad_y)),
    ]


def _require(sizes):
    if sizes["B"] < 2:
        raise ArgumentError(f"branch_independence(x): {sizes['B']} samples; a standard deviation needs at least 2")


OPERATION = Operation(
    "branch_independence",
    ARGUMENTS,
    branch_independence_cpu,
    launches,
    (MOMENTS, COVARIANCE, SQUARES, GRADIENT),
    _require,
)


def branch_independence(x, y, active, value, grad_x, grad_y) -> None:
    """value[p] = |C|^2 with C = X'Y/(B-1), X and Y the features of two branches standardised per member and column
    over the batch (mean 0, sample standard deviation with ddof 1): the sum of all squared correlations between the
    branches, 0 to min(H1, H2) * max(H1, H2). Cross-correlation as in Barlow Twins (Zbontar et al. 2021, eq. 2), every
    entry pulled to 0.

    x, grad_x: float32[P, B, H1]; y, grad_y: float32[P, B, H2], B >= 2; active: int32[P]; value: float32[P].
    grad_x and grad_y are d value/dx and d value/dy, through the standardisation. A column with sd <= 1e-6 counts as
    constant: it stands for zeros and its gradient is 0. active 0: the lane's outputs are left as they are.
    Sums over the batch and over columns run in index order by fused multiply-add; the total by 128 strided lanes and a
    halving tree. Same bits on every backend. On CUDA six launches and scratch from torch's allocator (capturable).
    """
    OPERATION(x, y, active, value, grad_x, grad_y)
