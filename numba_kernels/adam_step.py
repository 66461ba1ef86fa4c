"""Adam with one row of hyperparameters per lane, and the target network's step, in one pass over the flat buffers."""

from __future__ import annotations

import dataclasses
import math

import torch
from numba import float32, uint32

from . import halves, pairs
from .argument import declare, prefix
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_function, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 256
ARGUMENTS = declare(
    "gradient: float32[P, T], coefficients: float32[P, 7], alive: int32[P], params: float32[P, T], "
    "first: float32[P, T], second: float32[P, T], target: float32[P, T], count: int64, "
    "low_params: bfloat16[P, L], low_target: bfloat16[P, L]"
)
KINDS = {("P", "T"): ("int64", torch.int64), ("P", "L"): ("int32", torch.int32)}  # two neighbours in a word
WORDS = tuple(
    dataclasses.replace(a, kind=KINDS[a.sizes][0], sizes=("P", f"{a.sizes[1]}/2")) if a.sizes in KINDS else a
    for a in ARGUMENTS
)

_on_cuda = for_cuda(pairs)
_first, _second, _joined = _on_cuda.first, _on_cuda.second, _on_cuda.joined
_joined_halves, _narrow_cpu = for_cuda(halves).joined, for_cpu(halves).narrow


@cuda_function
def _adam(g, before, m, v, slow, c):
    """New first and second moment, parameter and target of one parameter, `g` its raw gradient."""
    scaled, beta1, beta2 = g * c[0], c[2], c[3]
    m = fma(beta1, m, (float32(1.0) - beta1) * scaled)
    v = fma(beta2, v, (float32(1.0) - beta2) * scaled * scaled)
    value = before - c[1] * m / (float32(math.sqrt(v * c[4])) + c[5])
    return m, v, value, fma(c[6], value - slow, slow)


@cuda_kernel(BLOCK)
def adam_step_kernel(gradient, coefficients, alive, params, first, second, target, count, low_params, low_target):
    """Grid (P, count / 512); a thread owns 2 neighbouring parameters. No reduction; 36 bytes moved a parameter, and 4
    for its bfloat16 copies."""
    lane = uint32(cuda.blockIdx.x)
    if alive[lane] == 0:
        return
    i = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if i < uint32(count // 2):
        c = coefficients[lane]
        g, before, m, v, slow = gradient[lane, i], params[lane, i], first[lane, i], second[lane, i], target[lane, i]
        m0, v0, p0, t0 = _adam(_first(g), _first(before), _first(m), _first(v), _first(slow), c)
        m1, v1, p1, t1 = _adam(_second(g), _second(before), _second(m), _second(v), _second(slow), c)
        first[lane, i], second[lane, i] = _joined(m0, m1), _joined(v0, v1)
        params[lane, i], target[lane, i] = _joined(p0, p1), _joined(t0, t1)
        if i < uint32(low_params.shape[1]):
            low_params[lane, i], low_target[lane, i] = _joined_halves(p0, p1), _joined_halves(t0, t1)


@cpu_kernel
def adam_step_cpu(gradient, coefficients, alive, params, first, second, target, count, low_params, low_target):
    for lane in range(gradient.shape[0]):
        if alive[lane] == 0:
            continue
        scale, step, beta1, beta2 = coefficients[lane, :4]
        correction, epsilon, rate = coefficients[lane, 4:]
        rest1, rest2 = float32(1.0) - beta1, float32(1.0) - beta2
        for i in range(count):
            g = gradient[lane, i] * scale
            m = cpu_fma(beta1, first[lane, i], rest1 * g)
            v = cpu_fma(beta2, second[lane, i], rest2 * g * g)
            root = float32(math.sqrt(v * correction)) + epsilon
            value = params[lane, i] - step * m / root
            first[lane, i] = m
            second[lane, i] = v
            params[lane, i] = value
            target[lane, i] = cpu_fma(rate, value - target[lane, i], target[lane, i])
        for i in range(min(count, low_params.shape[1])):
            low_params[lane, i] = _narrow_cpu(params[lane, i])
            low_target[lane, i] = _narrow_cpu(target[lane, i])


KERNEL = CudaKernel(adam_step_kernel, WORDS, BLOCK)


def _words(tensor, kind):
    """The tensor two neighbours at a time; torch takes no such view of rows without entries."""
    return tensor.view(kind) if tensor.shape[1] else tensor.new_empty(len(tensor), 0, dtype=kind)


def launches(*tensors):
    words = [_words(t, KINDS[a.sizes][1]) if a.sizes in KINDS else t for a, t in zip(ARGUMENTS, tensors, strict=True)]
    return [Launch(KERNEL, (tensors[0].shape[0], -(-tensors[7] // (2 * BLOCK))), tuple(words))]


OPERATION = Operation("adam_step", ARGUMENTS, adam_step_cpu, launches, (KERNEL,))


def adam_step(
    gradient, coefficients, alive, params, first, second, target, count=None, low_params=None, low_target=None
) -> None:
    """One Adam step (Kingma, Ba 2015, Algorithm 1) and one Polyak step of the target network, in place.

    gradient, params, first, second, target: float32[P, T]; coefficients: float32[P, 7] = gradient scale, learning rate
    / (1 - beta1^t), beta1, beta2, 1 / (1 - beta2^t), epsilon, target rate; alive: int32[P], 0 leaves the lane as it is,
    whatever its gradient holds; T even; count: only the first so many parameters, an even number, None for all.
    low_params, low_target: bfloat16[P, L] with L even, written with the new values of the first L parameters and
    targets; None: none. Entries do not mix, no sums. Same bits on every backend.
    """
    low = [params.new_empty(len(params), 0, dtype=torch.bfloat16) if x is None else x for x in (low_params, low_target)]
    OPERATION(gradient, coefficients, alive, params, first, second, target, prefix(count, gradient), *low)
