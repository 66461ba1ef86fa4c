"""The way back through the product of features and their quantile embedding, and through the embedding's ReLU."""

from __future__ import annotations

import numpy as np
from numba import float32, int32, uint32

from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_function, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation
from .reduction import sum_columns_cpu, sum_columns_cuda

COLUMNS, LANES = 32, 16
BLOCK = COLUMNS * LANES
ARGUMENTS = declare(
    "gradient: float32[P, M, H], embedding: float32[P, M, H], features: float32[P, B, H], "
    "d_features: float32[P, B, H], bias_gradient: float32[P:, H]"
)
ZERO = float32(0.0)


@cuda_function
def _through(d, e, x):
    """The gradient at the embedding before its ReLU, from that at the product."""
    return ZERO if e <= ZERO else d * x


@cuda_kernel(BLOCK)
def mixing_gradient_kernel(gradient, embedding, features, d_features, bias_gradient):
    """Grid (P, H / 32); a warp owns 32 columns of every 16th sample and its levels, four in flight. 12 bytes moved an
    entry of the embedding."""
    partial = cuda.shared.array(BLOCK, float32)
    p, thread = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x)
    batch, width = uint32(features.shape[1]), uint32(features.shape[2])
    levels = uint32(uint32(gradient.shape[1]) // batch)
    column = uint32(cuda.blockIdx.y) * uint32(COLUMNS) + thread % uint32(COLUMNS)
    d, e, x, dx, total = gradient[p], embedding[p], features[p], d_features[p], ZERO
    if column < width:
        for b in range(thread // uint32(COLUMNS), batch, uint32(LANES)):
            own, summed, n = x[b, column], ZERO, uint32(b * levels)
            stop = uint32(n + levels)
            while n + uint32(3) < stop:
                n1, n2, n3 = n + uint32(1), n + uint32(2), n + uint32(3)
                d0, d1, d2, d3 = d[n, column], d[n1, column], d[n2, column], d[n3, column]
                e0, e1, e2, e3 = e[n, column], e[n1, column], e[n2, column], e[n3, column]
                summed = fma(d3, e3, fma(d2, e2, fma(d1, e1, fma(d0, e0, summed))))
                d0, d1, d2, d3 = (
                    _through(d0, e0, own),
                    _through(d1, e1, own),
                    _through(d2, e2, own),
                    _through(d3, e3, own),
                )
                d[n, column], d[n1, column], d[n2, column], d[n3, column] = d0, d1, d2, d3
                total = total + d0 + d1 + d2 + d3
                n = uint32(n + uint32(4))
            while n < stop:
                d0, e0 = d[n, column], e[n, column]
                summed, d0 = fma(d0, e0, summed), _through(d0, e0, own)
                d[n, column] = d0
                total += d0
                n = uint32(n + uint32(1))
            dx[b, column] = summed
    partial[thread] = total
    sum_columns_cuda(partial, int32(thread), COLUMNS, LANES)
    if thread < uint32(COLUMNS) and column < width:
        bias_gradient[p, column] = partial[thread]


@cpu_kernel
def mixing_gradient_cpu(gradient, embedding, features, d_features, bias_gradient):
    batch, width = features.shape[1:]
    levels, lanes = gradient.shape[1] // batch, np.empty((LANES, width), np.float32)
    for p in range(features.shape[0]):
        for t in range(LANES):
            for i in range(width):
                lanes[t, i] = ZERO
        for b in range(batch):
            x, dx, total = features[p, b], d_features[p, b], lanes[b % LANES]
            for i in range(width):
                dx[i] = ZERO
            for n in range(b * levels, (b + 1) * levels):
                d, e = gradient[p, n], embedding[p, n]
                for i in range(width):
                    dx[i] = cpu_fma(d[i], e[i], dx[i])
                for i in range(width):
                    d[i] = ZERO if e[i] <= ZERO else d[i] * x[i]
                for i in range(width):
                    total[i] += d[i]
        sum_columns_cpu(lanes)
        for i in range(width):
            bias_gradient[p, i] = lanes[0, i]


KERNEL = CudaKernel(mixing_gradient_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, _, width = tensors[2].shape
    return [Launch(KERNEL, (lanes, -(-width // COLUMNS)), tensors)]


def _require(sizes):
    if sizes["B"] and sizes["M"] % sizes["B"]:
        raise ArgumentError(f"mixing_gradient(gradient): {sizes['M']} rows, a multiple of {sizes['B']} samples wanted")


OPERATION = Operation("mixing_gradient", ARGUMENTS, mixing_gradient_cpu, launches, (KERNEL,), _require)


def mixing_gradient(gradient, embedding, features, d_features, bias_gradient) -> None:
    """Backward of y[b N + n] = features[b] x relu(z)[b N + n], elementwise over H columns.

    gradient: float32[P, B N, H], d loss / d y, becomes d loss / d z = features x gradient where the embedding is above
    0, else 0, by selection; embedding: float32[P, B N, H] = relu(z); features: float32[P, B, H]; d_features: float32[P,
    B, H] = sum_n gradient x embedding, in order of n; bias_gradient: float32[P, H] = the sum of d loss / d z over all
    rows, whose lanes may lie apart: 16 strided lanes of samples, then a halving tree. Same bits on every backend.
    """
    OPERATION(gradient, embedding, features, d_features, bias_gradient)
