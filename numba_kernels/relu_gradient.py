"""The way back through a dense layer's bias and ReLU: mask the gradient and sum it over the samples, in one pass."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import torch
from numba import float32, int32, uint32

from . import halves, pairs
from .argument import ArgumentError, declare
from .cpu_target import cpu_function, cpu_kernel
from .cuda_target import cuda, cuda_function, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .narrowed import NarrowedOperation, even_columns, is_narrow, narrow_arguments
from .operation import Operation
from .reduction import sum_columns_cpu, sum_columns_cuda

COLUMNS, LANES = 32, 16
BLOCK = COLUMNS * LANES
RELU_ARGUMENTS = declare("gradient: float32[P, B, N], output: float32[P:, B, N], bias_gradient: float32[P:, N]")
FLAT_ARGUMENTS = declare(
    "gradient: float32[P, M], output: float32[P:, M], bias_gradient: float32[P:, N], columns: int64"
)
WORD_ARGUMENTS = declare("gradient: int64[P, H], output: int64[P:, H], bias_gradient: float32[P:, N], columns: int64")
HALF_ARGUMENTS = declare("gradient: int32[P, H], output: int32[P:, H], bias_gradient: float32[P:, N], columns: int64")
BIAS_ARGUMENTS = declare("gradient: float32[P, B, W], first: int64, bias_gradient: float32[P:, N], columns: int64")
ZERO = float32(0.0)


@cuda_function
def _as_it_is(x):
    return x


@cuda_function
def _open(d, h):
    """The gradient `d` through a ReLU whose output was `h`."""
    return ZERO if h <= ZERO else d


@cuda_kernel(BLOCK)
def relu_gradient_kernel(gradient, output, bias_gradient, columns):
    """Grid (P, N / 32); a warp owns 32 columns of every 16th sample, four in flight. 12 bytes moved an entry."""
    partial = cuda.shared.array(BLOCK, float32)
    p, thread, width = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x), uint32(columns)
    column = uint32(cuda.blockIdx.y) * uint32(COLUMNS) + thread % uint32(COLUMNS)
    row, out, stop = gradient[p], output[p], uint32(gradient.shape[1])
    total, step = ZERO, uint32(uint32(LANES) * width)
    i = uint32(thread // uint32(COLUMNS) * width + column)
    if column < width:
        while i + uint32(3) * step < stop:
            i1, i2, i3 = i + step, i + uint32(2) * step, i + uint32(3) * step
            d0, d1, d2, d3 = row[i], row[i1], row[i2], row[i3]
            h0, h1, h2, h3 = out[i], out[i1], out[i2], out[i3]
            d0, d1 = ZERO if h0 <= ZERO else d0, ZERO if h1 <= ZERO else d1
            d2, d3 = ZERO if h2 <= ZERO else d2, ZERO if h3 <= ZERO else d3
            row[i], row[i1], row[i2], row[i3] = d0, d1, d2, d3
            total = total + d0 + d1 + d2 + d3
            i = uint32(i + uint32(4) * step)
        while i < stop:
            d = ZERO if out[i] <= ZERO else row[i]
            row[i] = d
            total += d
            i = uint32(i + step)
    partial[thread] = total
    sum_columns_cuda(partial, int32(thread), COLUMNS, LANES)
    if thread < uint32(COLUMNS) and column < width:
        bias_gradient[p, column] = partial[thread]


def make_words_kernel(words_of: types.ModuleType, name: str) -> Any:
    """The same for an even number of columns, two neighbours in one word as `words_of` takes them apart."""
    arithmetic = for_cuda(words_of)
    first, second, joined = arithmetic.first, arithmetic.second, arithmetic.joined

    @cuda_kernel(BLOCK)
    def kernel(gradient, output, bias_gradient, columns):
        """Grid (P, N / 64); a thread owns two neighbouring columns of every 16th sample, two samples in flight."""
        partial = cuda.shared.array(BLOCK, float32)
        other = cuda.shared.array(BLOCK, float32)
        p, thread, width = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x), uint32(columns // 2)
        column = uint32(cuda.blockIdx.y) * uint32(COLUMNS) + thread % uint32(COLUMNS)
        row, out, stop = gradient[p], output[p], uint32(gradient.shape[1])
        low, high, step = ZERO, ZERO, uint32(uint32(LANES) * width)
        i = uint32(thread // uint32(COLUMNS) * width + column)
        if column < width:
            while i + step < stop:
                d0, d1, h0, h1 = row[i], row[i + step], out[i], out[i + step]
                a0, b0 = _open(first(d0), first(h0)), _open(second(d0), second(h0))
                a1, b1 = _open(first(d1), first(h1)), _open(second(d1), second(h1))
                row[i], row[i + step] = joined(a0, b0), joined(a1, b1)
                low, high = low + a0 + a1, high + b0 + b1
                i = uint32(i + uint32(2) * step)
            if i < stop:
                d0, h0 = row[i], out[i]
                a0, b0 = _open(first(d0), first(h0)), _open(second(d0), second(h0))
                row[i] = joined(a0, b0)
                low, high = low + a0, high + b0
        partial[thread], other[thread] = low, high
        sum_columns_cuda(partial, int32(thread), COLUMNS, LANES)
        sum_columns_cuda(other, int32(thread), COLUMNS, LANES)
        if thread < uint32(COLUMNS) and column < width:
            bias_gradient[p, column + column] = partial[thread]
            bias_gradient[p, column + column + uint32(1)] = other[thread]

    kernel.py_func.__name__ = name
    return kernel


def make_bias_kernel(widen: Any, name: str) -> Any:
    """The sum over samples of what `widen` makes of the entries."""

    @cuda_kernel(BLOCK)
    def kernel(gradient, first, bias_gradient, columns):
        """Grid (P, N / 32); a warp owns 32 columns of every 16th sample. Every entry is read once."""
        partial = cuda.shared.array(BLOCK, float32)
        p, thread = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x)
        column, rows, total = uint32(cuda.blockIdx.y) * uint32(COLUMNS) + thread % uint32(COLUMNS), gradient[p], ZERO
        if column < uint32(columns):
            for b in range(thread // uint32(COLUMNS), uint32(rows.shape[0]), uint32(LANES)):
                total += widen(rows[b, uint32(first) + column])
        partial[thread] = total
        sum_columns_cuda(partial, int32(thread), COLUMNS, LANES)
        if thread < uint32(COLUMNS) and column < uint32(columns):
            bias_gradient[p, column] = partial[thread]

    kernel.py_func.__name__ = name
    return kernel


@cpu_function
def _clear(lanes):
    for t in range(lanes.shape[0]):
        for i in range(lanes.shape[1]):
            lanes[t, i] = ZERO


@cpu_function
def _write_sums(lanes, out):
    sum_columns_cpu(lanes)
    for i in range(lanes.shape[1]):
        out[i] = lanes[0, i]


@cpu_kernel
def relu_gradient_cpu(gradient, output, bias_gradient):
    lanes = np.empty((LANES, gradient.shape[2]), np.float32)
    for p in range(gradient.shape[0]):
        _clear(lanes)
        for b in range(gradient.shape[1]):
            row, total = gradient[p, b], lanes[b % LANES]
            out = output[p, b * row.size : (b + 1) * row.size]
            for i in range(row.size):
                row[i] = ZERO if out[i] <= ZERO else row[i]
            for i in range(row.size):
                total[i] += row[i]
        _write_sums(lanes, bias_gradient[p])


@cpu_kernel
def bias_gradient_cpu(gradient, first, bias_gradient, columns):
    lanes = np.empty((LANES, columns), np.float32)
    for p in range(gradient.shape[0]):
        _clear(lanes)
        for b in range(gradient.shape[1]):
            row, total = gradient[p, b, first : first + columns], lanes[b % LANES]
            for i in range(columns):
                total[i] += row[i]
        _write_sums(lanes, bias_gradient[p])


RELU_KERNELS = (
    CudaKernel(relu_gradient_kernel, FLAT_ARGUMENTS, BLOCK),
    CudaKernel(make_words_kernel(pairs, "relu_gradient_words_kernel"), WORD_ARGUMENTS, BLOCK),
)
NARROW_RELU = CudaKernel(make_words_kernel(halves, "relu_gradient_bfloat16_kernel"), HALF_ARGUMENTS, BLOCK)
BIAS_KERNEL = CudaKernel(make_bias_kernel(_as_it_is, "bias_gradient_kernel"), BIAS_ARGUMENTS, BLOCK)
NARROW_BIAS_ARGUMENTS = narrow_arguments(BIAS_ARGUMENTS, {"gradient"})
NARROW_BIAS = CudaKernel(
    make_bias_kernel(for_cuda(halves).widen, "bias_gradient_bfloat16_kernel"), NARROW_BIAS_ARGUMENTS, BLOCK
)


def _relu_launches(gradient, output, bias_gradient):
    lanes, samples, columns = gradient.shape
    single, words = RELU_KERNELS
    flat = gradient.view(lanes, samples * columns), output.flatten(1)
    if columns % 2:
        return [Launch(single, (lanes, -(-columns // COLUMNS)), (*flat, bias_gradient, columns))]
    pairs_of = (x.view(torch.int64) for x in flat)
    return [Launch(words, (lanes, -(-columns // (2 * COLUMNS))), (*pairs_of, bias_gradient, columns))]


def _narrow_relu_launches(gradient, output, bias_gradient):
    lanes, samples, columns = gradient.shape
    words = gradient.view(lanes, samples * columns).view(torch.int32), output.flatten(1).view(torch.int32)
    return [Launch(NARROW_RELU, (lanes, -(-columns // (2 * COLUMNS))), (*words, bias_gradient, columns))]


def _bias_launches(gradient, first, bias_gradient, columns):
    kernel = NARROW_BIAS if is_narrow(gradient) else BIAS_KERNEL
    grid = (gradient.shape[0], -(-columns // COLUMNS))
    return [Launch(kernel, grid, (gradient, first, bias_gradient, columns))]


RELU_GRADIENT = Operation("relu_gradient", RELU_ARGUMENTS, relu_gradient_cpu, _relu_launches, RELU_KERNELS)
NARROWED_RELU_GRADIENT = NarrowedOperation(
    "relu_gradient_bfloat16",
    narrow_arguments(RELU_ARGUMENTS, {"gradient", "output"}),
    relu_gradient_cpu,
    _narrow_relu_launches,
    (NARROW_RELU,),
    even_columns("relu_gradient(gradient)"),
    wide=RELU_GRADIENT,
)
BIAS_GRADIENT = Operation("bias_gradient", BIAS_ARGUMENTS, bias_gradient_cpu, _bias_launches, (BIAS_KERNEL,))
NARROWED_BIAS_GRADIENT = NarrowedOperation(
    "bias_gradient_bfloat16",
    NARROW_BIAS_ARGUMENTS,
    bias_gradient_cpu,
    _bias_launches,
    (NARROW_BIAS,),
    wide=BIAS_GRADIENT,
)


def relu_gradient(gradient, output, bias_gradient) -> None:
    """gradient = 0 where output <= 0, in place; bias_gradient[p, n] = sum_b gradient[p, b, n] afterwards.

    gradient, output (of the ReLU): float32[P, B, N], or both bfloat16 with N even; bias_gradient: float32[P, N]; the
    lanes of the last two may lie apart. By selection: an infinite gradient at a closed unit becomes 0. Sums run over 16
    strided lanes of samples, then a halving tree. Same bits on every backend.
    """
    (NARROWED_RELU_GRADIENT if is_narrow(gradient) else RELU_GRADIENT)(gradient, output, bias_gradient)


def bias_gradient(gradient, first, out) -> None:
    """out[p, n] = sum_b gradient[p, b, first + n] for the N columns of `out`.

    gradient: float32[P, B, W] or bfloat16; first: int, at most W - N; out: float32[P, N], whose lanes may lie apart.
    Sums as in `relu_gradient`. Same bits on every backend.
    """
    if not 0 <= first <= gradient.shape[-1] - out.shape[-1]:
        columns = f"columns {first} to {first + out.shape[-1]} of {gradient.shape[-1]}"
        raise ArgumentError(f"bias_gradient(first): {columns}")
    (NARROWED_BIAS_GRADIENT if is_narrow(gradient) else BIAS_GRADIENT)(gradient, first, out, out.shape[-1])
