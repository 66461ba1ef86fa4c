"""Bias and ReLU behind a matrix product, in place and in one pass."""

from __future__ import annotations

import types
from typing import Any

import torch
from numba import float32, int32, int64, uint32

from . import halves, pairs
from .argument import declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .narrowed import NarrowedOperation, even_columns, is_narrow, narrow_arguments
from .operation import Operation

BLOCK = 256
DEPTH = 8  # entries a thread
WORDS = DEPTH // 2
ARGUMENTS = declare("x: float32[P, B, N], bias: float32[P:, N]")
FLAT_ARGUMENTS = declare("x: float32[P, M], bias: float32[P:, N], columns: int64")
WORD_ARGUMENTS = declare("x: int64[P, H], bias: float32[P:, N], columns: int64")
HALF_ARGUMENTS = declare("x: int32[P, H], bias: float32[P:, N], columns: int64")
ZERO = float32(0.0)


@cuda_kernel(BLOCK)
def bias_relu_kernel(x, bias, columns):
    """Grid (P, B N / 2048) over the flattened samples; a thread owns 8 entries, all in flight. 8 bytes moved an entry.

    Indices are unsigned: a signed one would be tested for a count from the end at every access.
    """
    row, shift = x[uint32(cuda.blockIdx.x)], bias[uint32(cuda.blockIdx.x)]
    values = cuda.local.array(DEPTH, float32)
    width, stop = uint32(columns), uint32(x.shape[1])
    begin = uint32(cuda.blockIdx.y) * uint32(BLOCK * DEPTH) + uint32(cuda.threadIdx.x)
    if begin >= stop:
        return
    column, step = uint32(begin % width), uint32(uint32(BLOCK) % width)
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        values[k] = row[i if i < stop else begin] + shift[column]
        column = uint32(column + step)
        column = uint32(column - width) if column >= width else column
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        if i < stop:
            row[i] = ZERO if values[k] <= ZERO else values[k]


def make_words_kernel(words_of: types.ModuleType, word: Any, name: str) -> Any:
    """The same for an even number of columns, two neighbours in one `word` as `words_of` takes them apart."""
    arithmetic = for_cuda(words_of)
    first, second, joined = arithmetic.first, arithmetic.second, arithmetic.joined

    @cuda_kernel(BLOCK)
    def kernel(x, bias, columns):
        """Grid (P, B N / 2048); a thread owns 4 pairs of neighbours of one sample each, all in flight."""
        row, shift = x[uint32(cuda.blockIdx.x)], bias[uint32(cuda.blockIdx.x)]
        words = cuda.local.array(WORDS, word)
        width, stop = uint32(columns // 2), uint32(x.shape[1])
        begin = uint32(cuda.blockIdx.y) * uint32(BLOCK * WORDS) + uint32(cuda.threadIdx.x)
        if begin >= stop:
            return
        column, step = uint32(begin % width), uint32(uint32(BLOCK) % width)
        for k in range(WORDS):
            i = begin + uint32(k * BLOCK)
            pair, left = row[i if i < stop else begin], uint32(column + column)
            low, high = first(pair) + shift[left], second(pair) + shift[left + uint32(1)]
            words[k] = joined(ZERO if low <= ZERO else low, ZERO if high <= ZERO else high)
            column = uint32(column + step)
            column = uint32(column - width) if column >= width else column
        for k in range(WORDS):
            i = begin + uint32(k * BLOCK)
            if i < stop:
                row[i] = words[k]

    kernel.py_func.__name__ = name
    return kernel


@cpu_kernel
def bias_relu_cpu(x, bias):
    for p in range(x.shape[0]):
        shift = bias[p]
        for b in range(x.shape[1]):
            row = x[p, b]
            for i in range(row.size):
                value = row[i] + shift[i]
                row[i] = ZERO if value <= ZERO else value


KERNELS = (
    CudaKernel(bias_relu_kernel, FLAT_ARGUMENTS, BLOCK),
    CudaKernel(make_words_kernel(pairs, int64, "bias_relu_words_kernel"), WORD_ARGUMENTS, BLOCK),
)
NARROW_KERNEL = CudaKernel(make_words_kernel(halves, int32, "bias_relu_bfloat16_kernel"), HALF_ARGUMENTS, BLOCK)


def launches(x, bias):
    lanes, samples, columns = x.shape
    flat, grid = x.view(lanes, samples * columns), (lanes, -(-samples * columns // (BLOCK * DEPTH)))
    single, words = KERNELS
    if columns % 2:
        return [Launch(single, grid, (flat, bias, columns))]
    return [Launch(words, grid, (flat.view(torch.int64), bias, columns))]


def _narrow_launches(x, bias):
    lanes, samples, columns = x.shape
    words = x.view(lanes, samples * columns).view(torch.int32)
    return [Launch(NARROW_KERNEL, (lanes, -(-samples * columns // (BLOCK * DEPTH))), (words, bias, columns))]


OPERATION = Operation("bias_relu", ARGUMENTS, bias_relu_cpu, launches, KERNELS)
NARROWED = NarrowedOperation(
    "bias_relu_bfloat16",
    narrow_arguments(ARGUMENTS, {"x"}),
    bias_relu_cpu,
    _narrow_launches,
    (NARROW_KERNEL,),
    even_columns("bias_relu(x)"),
    wide=OPERATION,
)


def bias_relu(x, bias) -> None:
    """x[p, b, n] = max(x[p, b, n] + bias[p, n], 0), in place.

    x: float32[P, B, N], or bfloat16 with N even; bias: float32[P, N], whose lanes may lie apart. A NaN stays NaN.
    Entries do not mix, no sums. Same bits on every backend.
    """
    (NARROWED if is_narrow(x) else OPERATION)(x, bias)
