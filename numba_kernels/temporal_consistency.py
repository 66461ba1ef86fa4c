"""G10 temporal consistency: Jensen-Shannon divergence of the policies at t and t+1."""

from __future__ import annotations

from numba import float32, int32

from . import divergence
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
ARGUMENTS = declare(
    "q: float32[P, B, A], q_next: float32[P, B, A], weight: float32[P, B], temperature: float32[P], active: int32[P], "
    "value: float32[P, B], grad_q: float32[P, B, A], grad_q_next: float32[P, B, A]"
)

_on_cuda = for_cuda(divergence)
_softmax_cuda, _divergence_cuda, _clear_cuda = _on_cuda.softmax, _on_cuda.jensen_shannon, _on_cuda.clear
_on_cpu = for_cpu(divergence)
_softmax_cpu, _divergence_cpu, _clear_cpu = _on_cpu.softmax, _on_cpu.jensen_shannon, _on_cpu.clear


@cuda_kernel(BLOCK)
def temporal_consistency_kernel(q, q_next, weight, temperature, active, value, grad_q, grad_q_next):
    """Grid (P, B / BLOCK); a thread owns a sample. The gradients serve as scratch for the probabilities."""
    p = int32(cuda.blockIdx.x)
    b = int32(cuda.blockIdx.y) * int32(BLOCK) + int32(cuda.threadIdx.x)
    if active[p] == 0 or b >= q.shape[1]:
        return
    if weight[p, b] == float32(0.0):
        value[p, b] = float32(0.0)
        _clear_cuda(grad_q, grad_q_next, p, b)
        return
    _softmax_cuda(q, grad_q, p, b, temperature[p])
    _softmax_cuda(q_next, grad_q_next, p, b, temperature[p])
    value[p, b] = _divergence_cuda(grad_q, grad_q_next, p, b, float32(1.0) / temperature[p], weight[p, b])


@cpu_kernel
def temporal_consistency_cpu(q, q_next, weight, temperature, active, value, grad_q, grad_q_next):
    for p in range(q.shape[0]):
        if active[p] == 0:
            continue
        for b in range(q.shape[1]):
            if weight[p, b] == float32(0.0):
                value[p, b] = float32(0.0)
                _clear_cpu(grad_q, grad_q_next, p, b)
                continue
            _softmax_cpu(q, grad_q, p, b, temperature[p])
            _softmax_cpu(q_next, grad_q_next, p, b, temperature[p])
            value[p, b] = _divergence_cpu(grad_q, grad_q_next, p, b, float32(1.0) / temperature[p], weight[p, b])


KERNEL = CudaKernel(temporal_consistency_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, samples = tensors[2].shape
    return [Launch(KERNEL, (lanes, -(-samples // BLOCK)), tensors)]


OPERATION = Operation("temporal_consistency", ARGUMENTS, temporal_consistency_cpu, launches, (KERNEL,))


def temporal_consistency(q, q_next, weight, temperature, active, value, grad_q, grad_q_next) -> None:
    """value[p, b] = weight[p, b] JSD(softmax(q/T), softmax(q_next/T)) in nats, at most log 2 (Lin 1991, eq. 4.1, both
    weights 1/2; as a policy regulariser: CAPS, Mysore et al. 2021, eq. 4 with JSD for the distance).

    q, q_next, grad_q, grad_q_next: float32[P, B, A]; weight, value: float32[P, B]; temperature: float32[P], above 0;
    active: int32[P]. The gradients are those of the sample's value. weight 0 (an end or a gap between t and t+1):
    value and gradients exactly 0, whatever q holds. active 0: the lane's outputs are left as they are. A NaN stays in
    its sample. The gradient tensors must not share memory with q or q_next: they hold the probabilities in between.
    Within a few ulp between backends (exp, log1p); same bits on one backend.
    """
    OPERATION(q, q_next, weight, temperature, active, value, grad_q, grad_q_next)
