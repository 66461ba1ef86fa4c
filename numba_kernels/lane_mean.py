"""Weighted mean over the samples of each lane, in a fixed order."""

from __future__ import annotations

import numpy as np
from numba import float32, int32

from .argument import declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel
from .launch import CudaKernel, Launch
from .operation import Operation
from .reduction import sum_lanes_cpu, sum_lanes_cuda

LANES = 128
ARGUMENTS = declare("values: float32[P, B], weight: float32[P, B], out: float32[P]")


@cuda_kernel(LANES)
def lane_mean_kernel(values, weight, out):
    """Grid P; a block reduces one lane. 8 bytes read a sample."""
    value_sum = cuda.shared.array(LANES, float32)
    weight_sum = cuda.shared.array(LANES, float32)
    thread, lane = int32(cuda.threadIdx.x), int32(cuda.blockIdx.x)
    value_total, weight_total = float32(0.0), float32(0.0)
    for i in range(thread, values.shape[1], LANES):
        value_total += values[lane, i]
        weight_total += weight[lane, i]
    value_sum[thread] = value_total
    weight_sum[thread] = weight_total
    sum_lanes_cuda(value_sum, thread, LANES)
    sum_lanes_cuda(weight_sum, thread, LANES)
    if thread == 0:
        out[lane] = float32(0.0) if weight_sum[0] == float32(0.0) else value_sum[0] / weight_sum[0]


@cpu_kernel
def lane_mean_cpu(values, weight, out):
    value_sum = np.empty(LANES, np.float32)
    weight_sum = np.empty(LANES, np.float32)
    for lane in range(values.shape[0]):
        value_sum[:] = float32(0.0)
        weight_sum[:] = float32(0.0)
        for first in range(0, values.shape[1], LANES):
            for t in range(min(LANES, values.shape[1] - first)):
                value_sum[t] += values[lane, first + t]
                weight_sum[t] += weight[lane, first + t]
        total = sum_lanes_cpu(weight_sum)
        out[lane] = float32(0.0) if total == float32(0.0) else sum_lanes_cpu(value_sum) / total


KERNEL = CudaKernel(lane_mean_kernel, ARGUMENTS, LANES)


def launches(values, weight, out):
    return [Launch(KERNEL, (values.shape[0],), (values, weight, out))]


OPERATION = Operation("lane_mean", ARGUMENTS, lane_mean_cpu, launches, (KERNEL,))


def lane_mean(values, weight, out) -> None:
    """out[p] = sum_b values[p, b] / sum_b weight[p, b], and 0 where the weights sum to 0.

    values, weight: float32[P, B]; the values carry their weight already; out: float32[P]. Sum: 128 strided lanes,
    then a halving tree. Same bits on every backend.
    """
    OPERATION(values, weight, out)
