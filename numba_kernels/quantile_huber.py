"""Quantile Huber loss of two action branches with its gradient, in one pass over all pairs of quantiles."""

from __future__ import annotations

from numba import float32, int64, uint32

from . import quantile_slope
from .argument import ArgumentError, declare
from .cpu_target import cpu_function, cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_function, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 128
ACTIONS, FLAT = 3, 1
ZERO, HALF = float32(0.0), float32(0.5)
ARGUMENTS = declare(
    "values: float32[P, B, N, 6], tau: float32[P, B, N], target: float32[P, B, M], direction: int64[P, B], "
    "magnitude: int64[P, B], weight: float32[P, B], kappa: float32, loss: float32[P, B, N], "
    "d_values: float32[P, B, N, 6]"
)
_on_cuda, _on_cpu = for_cuda(quantile_slope), for_cpu(quantile_slope)
_slope_cuda, _lever_cuda = _on_cuda.slope, _on_cuda.lever
_slope_cpu, _lever_cpu = _on_cpu.slope, _on_cpu.lever


@cuda_function
def _against(value, level, target, kappa):
    """Sums over the target's quantiles, in order: of slope x lever, and of the slope."""
    loss, slopes = ZERO, ZERO
    for j in range(uint32(target.size)):
        d = target[j] - value
        s = _slope_cuda(d, level, kappa)
        loss, slopes = fma(s, _lever_cuda(d, kappa), loss), slopes + s
    return loss, slopes


@cuda_kernel(BLOCK)
def quantile_huber_kernel(values, tau, target, direction, magnitude, weight, kappa, loss, d_values):
    """Grid (P, B N / 128); a thread owns an online quantile of a sample and writes its loss and six gradients. 56 bytes
    moved a quantile beside the sample's targets, which come from the cache."""
    p, levels = uint32(cuda.blockIdx.x), uint32(tau.shape[2])
    i = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if i >= uint32(tau.shape[1]) * levels:
        return
    b, n = uint32(i // levels), uint32(i % levels)
    taken, level, aims = uint32(direction[p, b]), tau[p, b, n], target[p, b]
    share = HALF / float32(tau.shape[1]) * weight[p, b] / float32(target.shape[2])
    own, out = values[p, b, n], d_values[p, b, n]
    total, slopes = _against(own[taken], level, aims, kappa)
    for k in range(uint32(2 * ACTIONS)):
        out[k] = ZERO
    out[taken] = -share * slopes
    if taken != uint32(FLAT):
        second = uint32(magnitude[p, b]) + uint32(ACTIONS)
        more, slopes = _against(own[second], level, aims, kappa)
        total += more
        out[second] = -share * slopes
    loss[p, b, n] = share * total


@cpu_function
def _against_cpu(value, level, target, kappa):
    loss, slopes = ZERO, ZERO
    for j in range(target.size):
        d = target[j] - value
        s = _slope_cpu(d, level, kappa)
        loss, slopes = cpu_fma(s, _lever_cpu(d, kappa), loss), slopes + s
    return loss, slopes


@cpu_kernel
def quantile_huber_cpu(values, tau, target, direction, magnitude, weight, kappa, loss, d_values):
    batch, levels = tau.shape[1:]
    for p in range(tau.shape[0]):
        for b in range(batch):
            taken, aims = direction[p, b], target[p, b]
            second = int64(ACTIONS) + magnitude[p, b]
            share = HALF / float32(batch) * weight[p, b] / float32(target.shape[2])
            for n in range(levels):
                own, out, level = values[p, b, n], d_values[p, b, n], tau[p, b, n]
                for k in range(2 * ACTIONS):
                    out[k] = ZERO
                total, slopes = _against_cpu(own[taken], level, aims, kappa)
                out[taken] = -share * slopes
                if taken != FLAT:
                    more, slopes = _against_cpu(own[second], level, aims, kappa)
                    total += more
                    out[second] = -share * slopes
                loss[p, b, n] = share * total


KERNEL = CudaKernel(quantile_huber_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, batch, levels = tensors[1].shape
    return [Launch(KERNEL, (lanes, -(-batch * levels // BLOCK)), tensors)]


OPERATION = Operation("quantile_huber", ARGUMENTS, quantile_huber_cpu, launches, (KERNEL,))


def quantile_huber(values, tau, target, direction, magnitude, weight, kappa, loss, d_values) -> None:
    """Quantile Huber loss (Dabney et al. 2018, 1806.06923, eq. 3) of the actions taken, mean of the two branches.

    values: float32[P, B, N, 6], quantiles of 3 directions, then 3 magnitudes, at the levels tau: float32[P, B, N];
    target: float32[P, B, M], each branch's target; direction, magnitude: int64[P, B] in 0..2, taken; a flat direction
    (1) leaves the magnitude out; weight: float32[P, B]; kappa: float, above 0. loss: float32[P, B, N], the part of each
    online quantile: weight_b / B / 2 x sum over branches of (1/M) sum_j |tau - 1{d_j < 0}| H(d_j) / kappa with d_j =
    target_j - value, so that their sum is the loss of the member; d_values: float32[P, B, N, 6], its gradient, 0 where
    no action was taken. Sums over j in order. Same bits on every backend.
    """
    if not kappa > 0.0:
        raise ArgumentError(f"quantile_huber(kappa): {kappa}, wants a number above 0")
    OPERATION(values, tau, target, direction, magnitude, weight, float(kappa), loss, d_values)
