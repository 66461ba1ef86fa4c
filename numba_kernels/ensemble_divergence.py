"""Disagreement of bootstrapped heads: normalised Jensen-Shannon divergence of their policies, of both branches."""

from __future__ import annotations

import math

from numba import float32, uint32

from . import elementary, head_policies
from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 128
ACTIONS = 3
ZERO, ONE = float32(0.0), float32(1.0)
ARGUMENTS = declare("values: float32[P, N, K, 6], temperature: float32[P], share: float32, out: float32[P, N]")
_on_cuda, _on_cpu = for_cuda(elementary), for_cpu(elementary)
_divergence_cuda = for_cuda(head_policies, exp_below=_on_cuda.exp_below, log_of=_on_cuda.log_of).divergence
_divergence_cpu = for_cpu(head_policies, exp_below=_on_cpu.exp_below, log_of=_on_cpu.log_of).divergence


@cuda_kernel(BLOCK)
def ensemble_divergence_kernel(values, temperature, share, out):
    """Grid (P, N / 128); a thread owns a state. 24 K + 4 bytes moved a state; bound by its exponentials."""
    p = uint32(cuda.blockIdx.x)
    i = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if i >= uint32(values.shape[1]):
        return
    own, scale = values[p, i], ONE / temperature[p]
    found = (_divergence_cuda(own, 0, scale) + _divergence_cuda(own, ACTIONS, scale)) * share
    out[p, i] = ZERO if found < ZERO else (ONE if found > ONE else found)


@cpu_kernel
def ensemble_divergence_cpu(values, temperature, share, out):
    for p in range(values.shape[0]):
        scale = ONE / temperature[p]
        for i in range(values.shape[1]):
            own = values[p, i]
            found = (_divergence_cpu(own, 0, scale) + _divergence_cpu(own, ACTIONS, scale)) * share
            out[p, i] = ZERO if found < ZERO else (ONE if found > ONE else found)


KERNEL = CudaKernel(ensemble_divergence_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, states = tensors[0].shape[:2]
    return [Launch(KERNEL, (lanes, -(-states // BLOCK)), tensors)]


def require(sizes):
    if sizes["K"] < 2:
        raise ArgumentError("ensemble_divergence(values): one head agrees with itself; it wants at least 2")


OPERATION = Operation("ensemble_divergence", ARGUMENTS, ensemble_divergence_cpu, launches, (KERNEL,), require=require)


def ensemble_divergence(values, temperature, out) -> None:
    """out[p, n] = JSD of the heads' policies softmax(Q / T), mean of the branches, over log K: in [0, 1].

    values: float32[P, N, K, 6], values of 3 directions, then 3 magnitudes, by K >= 2 heads; temperature: float32[P],
    above 0; out: float32[P, N]. JSD = mean over heads of KL(p || mean of the p) (Lin 1991, eq. 5.1, equal weights),
    whose largest value log K is reached by heads that choose disjoint actions. Sums over actions and heads in order.
    A NaN stays in its state. Same bits on every backend.
    """
    OPERATION(values, temperature, 1.0 / (2.0 * math.log(values.shape[2])) if values.shape[2] > 1 else 0.0, out)
