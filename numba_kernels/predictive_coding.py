"""G12 predictive coding: squared distance between the directions of a predicted and an actual latent vector."""

from __future__ import annotations

import numpy as np
from numba import float32, int32

from . import direction
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation
from .reduction import sum_lanes_cpu, sum_lanes_cuda

LANES = 32  # threads that share a sample
SAMPLES = 4  # samples of a block
BLOCK = LANES * SAMPLES
ARGUMENTS = declare(
    "prediction: float32[P, B, H], target: float32[P, B, H], weight: float32[P, B], active: int32[P], "
    "value: float32[P, B], grad_prediction: float32[P, B, H]"
)

_on_cuda = for_cuda(direction)
_inverse_cuda, _difference_cuda, _gradient_cuda = _on_cuda.inverse_norm, _on_cuda.difference, _on_cuda.gradient
_on_cpu = for_cpu(direction)
_inverse_cpu, _difference_cpu, _gradient_cpu = _on_cpu.inverse_norm, _on_cpu.difference, _on_cpu.gradient


@cuda_kernel(BLOCK)
def predictive_coding_kernel(prediction, target, weight, active, value, grad_prediction):
    """Grid (P, B / SAMPLES); LANES threads a sample. 8 bytes read (twice more from cache) and 4 written an entry."""
    first = cuda.shared.array(BLOCK, float32)
    second = cuda.shared.array(BLOCK, float32)
    thread, lane = int32(cuda.threadIdx.x), int32(cuda.blockIdx.x)
    if active[lane] == 0:
        return  # the whole block leaves, so no barrier is missed
    sample = int32(cuda.blockIdx.y) * int32(SAMPLES) + thread // int32(LANES)
    entry = thread % int32(LANES)
    width = prediction.shape[2] if sample < prediction.shape[1] else 0
    head = thread - entry
    predicted_square, target_square = float32(0.0), float32(0.0)
    for i in range(entry, width, LANES):
        predicted_square = fma(prediction[lane, sample, i], prediction[lane, sample, i], predicted_square)
        target_square = fma(target[lane, sample, i], target[lane, sample, i], target_square)
    first[thread] = predicted_square
    second[thread] = target_square
    sum_lanes_cuda(first, thread, LANES)
    sum_lanes_cuda(second, thread, LANES)
    predicted_inverse, target_inverse = _inverse_cuda(first[head]), _inverse_cuda(second[head])
    cuda.syncthreads()  # all have read the norms before the arrays are used again
    distance, overlap = float32(0.0), float32(0.0)
    for i in range(entry, width, LANES):
        gap = _difference_cuda(prediction[lane, sample, i], predicted_inverse, target[lane, sample, i], target_inverse)
        distance = fma(gap, gap, distance)
        overlap = fma(prediction[lane, sample, i] * predicted_inverse, gap, overlap)
    first[thread] = distance
    second[thread] = overlap
    sum_lanes_cuda(first, thread, LANES)
    sum_lanes_cuda(second, thread, LANES)
    if width > 0:
        share = weight[lane, sample]
        if entry == 0:
            value[lane, sample] = float32(0.0) if share == float32(0.0) else share * first[head]
        for i in range(entry, width, LANES):
            grad_prediction[lane, sample, i] = _gradient_cuda(
                prediction[lane, sample, i],
                predicted_inverse,
                target[lane, sample, i],
                target_inverse,
                second[head],
                share,
            )


@cpu_kernel
def predictive_coding_cpu(prediction, target, weight, active, value, grad_prediction):
    first = np.empty(LANES, np.float32)
    second = np.empty(LANES, np.float32)
    for lane in range(prediction.shape[0]):
        if active[lane] == 0:
            continue
        for sample in range(prediction.shape[1]):
            predicted, wanted = prediction[lane, sample], target[lane, sample]
            first[:] = float32(0.0)
            second[:] = float32(0.0)
            for start in range(0, predicted.size, LANES):
                for t in range(min(LANES, predicted.size - start)):
                    first[t] = cpu_fma(predicted[start + t], predicted[start + t], first[t])
                    second[t] = cpu_fma(wanted[start + t], wanted[start + t], second[t])
            predicted_inverse, target_inverse = (
                _inverse_cpu(sum_lanes_cpu(first)),
                _inverse_cpu(sum_lanes_cpu(second)),
            )
            first[:] = float32(0.0)
            second[:] = float32(0.0)
            for start in range(0, predicted.size, LANES):
                for t in range(min(LANES, predicted.size - start)):
                    x = predicted[start + t]
                    gap = _difference_cpu(x, predicted_inverse, wanted[start + t], target_inverse)
                    first[t] = cpu_fma(gap, gap, first[t])
                    second[t] = cpu_fma(x * predicted_inverse, gap, second[t])
            share = weight[lane, sample]
            value[lane, sample] = float32(0.0) if share == float32(0.0) else share * sum_lanes_cpu(first)
            overlap = sum_lanes_cpu(second)
            gradient = grad_prediction[lane, sample]
            for i in range(predicted.size):
                gradient[i] = _gradient_cpu(predicted[i], predicted_inverse, wanted[i], target_inverse, overlap, share)


KERNEL = CudaKernel(predictive_coding_kernel, ARGUMENTS, BLOCK)


def launches(prediction, target, weight, active, value, grad_prediction):
    lanes, samples = value.shape
    return [
        Launch(KERNEL, (lanes, -(-samples // SAMPLES)), (prediction, target, weight, active, value, grad_prediction))
    ]


OPERATION = Operation("predictive_coding", ARGUMENTS, predictive_coding_cpu, launches, (KERNEL,))


def predictive_coding(prediction, target, weight, active, value, grad_prediction) -> None:
    """value[p, b] = weight[p, b] |u - v|^2 with u = prediction/|prediction|, v = target/|target| (BYOL's regression
    loss, Grill et al. 2020, eq. 2; it equals 2 - 2 cos). grad_prediction is its gradient; the target gets none.

    prediction, target, grad_prediction: float32[P, B, H]; weight, value: float32[P, B]; active: int32[P]. A zero
    vector (squared norm 0 in float32, |x| < 1e-23) has no direction: its u or v is 0, so the value is the weight for
    one zero vector and 0 for two, and the gradient is 0 in both cases. weight 0: value and gradient exactly 0,
    whatever the vectors hold. active 0: the lane's outputs are left as they are. Sums over H: 32 strided lanes by
    fused multiply-add, then a halving tree. Same bits on every backend.
    """
    OPERATION(prediction, target, weight, active, value, grad_prediction)
