"""Adam with one row of hyperparameters per lane, and the target network's step, in one pass over the flat buffers."""

from __future__ import annotations

import math

from numba import float32, uint32

from .argument import declare, prefix
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK, DEPTH = 256, 2
ARGUMENTS = declare(
    "gradient: float32[P, T], coefficients: float32[P, 7], alive: int32[P], params: float32[P, T], "
    "first: float32[P, T], second: float32[P, T], target: float32[P, T], count: int64"
)


@cuda_kernel(BLOCK)
def adam_step_kernel(gradient, coefficients, alive, params, first, second, target, count):
    """Grid (P, count / 512); a thread owns 2 parameters. No reduction; 36 bytes moved a parameter."""
    lane = uint32(cuda.blockIdx.x)
    if alive[lane] == 0:
        return
    row, c = gradient[lane], coefficients[lane]
    p_row, m_row, v_row, t_row = params[lane], first[lane], second[lane], target[lane]
    scale, step, beta1, beta2, correction, epsilon, rate = c[0], c[1], c[2], c[3], c[4], c[5], c[6]
    rest1, rest2 = float32(1.0) - beta1, float32(1.0) - beta2
    begin = uint32(cuda.blockIdx.y) * uint32(BLOCK * DEPTH) + uint32(cuda.threadIdx.x)
    for k in range(DEPTH):
        i = begin + uint32(k * BLOCK)
        if i < uint32(count):
            g, before, slow = row[i] * scale, p_row[i], t_row[i]
            m = fma(beta1, m_row[i], rest1 * g)
            v = fma(beta2, v_row[i], rest2 * g * g)
            value = before - step * m / (float32(math.sqrt(v * correction)) + epsilon)
            m_row[i], v_row[i], p_row[i] = m, v, value
            t_row[i] = fma(rate, value - slow, slow)


@cpu_kernel
def adam_step_cpu(gradient, coefficients, alive, params, first, second, target, count):
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


KERNEL = CudaKernel(adam_step_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    return [Launch(KERNEL, (tensors[0].shape[0], -(-tensors[-1] // (BLOCK * DEPTH))), tensors)]


OPERATION = Operation("adam_step", ARGUMENTS, adam_step_cpu, launches, (KERNEL,))


def adam_step(gradient, coefficients, alive, params, first, second, target, count=None) -> None:
    """One Adam step (Kingma, Ba 2015, Algorithm 1) and one Polyak step of the target network, in place.

    gradient, params, first, second, target: float32[P, T]; coefficients: float32[P, 7] = gradient scale, learning rate
    / (1 - beta1^t), beta1, beta2, 1 / (1 - beta2^t), epsilon, target rate; alive: int32[P], 0 leaves the lane as it is,
    whatever its gradient holds; count: only the first so many parameters, None for all. Entries do not mix, no sums.
    Same bits on every backend.
    """
    OPERATION(gradient, coefficients, alive, params, first, second, target, prefix(count, gradient))
