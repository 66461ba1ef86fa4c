"""Adam with one row of hyperparameters per lane, and the target network's step, in one pass over the flat buffers."""

from __future__ import annotations

import math

from numba import float32, int32

from .argument import declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 256
ARGUMENTS = declare(
    "gradient: float32[P, T], coefficients: float32[P, 7], alive: int32[P], params: float32[P, T], "
    "first: float32[P, T], second: float32[P, T], target: float32[P, T]"
)


@cuda_kernel(BLOCK)
def adam_step_kernel(gradient, coefficients, alive, params, first, second, target):
    """Grid (P, T / BLOCK); a thread owns a parameter. No reduction; 36 bytes moved a parameter."""
    lane = int32(cuda.blockIdx.x)
    i = int32(cuda.blockIdx.y) * int32(BLOCK) + int32(cuda.threadIdx.x)
    if alive[lane] != 0 and i < gradient.shape[1]:
        beta1, beta2 = coefficients[lane, 2], coefficients[lane, 3]
        g = gradient[lane, i] * coefficients[lane, 0]
        m = fma(beta1, first[lane, i], (float32(1.0) - beta1) * g)
        v = fma(beta2, second[lane, i], (float32(1.0) - beta2) * g * g)
        root = float32(math.sqrt(v * coefficients[lane, 4])) + coefficients[lane, 5]
        value = params[lane, i] - coefficients[lane, 1] * m / root
        first[lane, i] = m
        second[lane, i] = v
        params[lane, i] = value
        target[lane, i] = fma(coefficients[lane, 6], value - target[lane, i], target[lane, i])


@cpu_kernel
def adam_step_cpu(gradient, coefficients, alive, params, first, second, target):
    for lane in range(gradient.shape[0]):
        if alive[lane] == 0:
            continue
        scale, step, beta1, beta2 = coefficients[lane, :4]
        correction, epsilon, rate = coefficients[lane, 4:]
        rest1, rest2 = float32(1.0) - beta1, float32(1.0) - beta2
        for i in range(gradient.shape[1]):
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
    lanes, total = tensors[0].shape
    return [Launch(KERNEL, (lanes, -(-total // BLOCK)), tensors)]


OPERATION = Operation("adam_step", ARGUMENTS, adam_step_cpu, launches, (KERNEL,))


def adam_step(gradient, coefficients, alive, params, first, second, target) -> None:
    """One Adam step (Kingma, Ba 2015, Algorithm 1) and one Polyak step of the target network, in place.

    gradient, params, first, second, target: float32[P, T]; coefficients: float32[P, 7] = gradient scale, learning rate
    / (1 - beta1^t), beta1, beta2, 1 / (1 - beta2^t), epsilon, target rate; alive: int32[P], 0 leaves the lane as it is,
    whatever its gradient holds. Entries do not mix, no sums. Same bits on every backend.
    """
    OPERATION(gradient, coefficients, alive, params, first, second, target)
