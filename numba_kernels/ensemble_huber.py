"""Loss of bootstrapped value heads with its gradient: targets, masks and Huber loss in one pass over the heads."""

from __future__ import annotations

from numba import float32, int64, uint32

from . import head_target
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 128
ACTIONS, FLAT = 3, 1
ZERO, HALF = float32(0.0), float32(0.5)
ARGUMENTS = declare(
    "values: float32[P, B, K, 6], chosen: float32[P, B, K, 6], valued: float32[P, B, K, 6], direction: int64[P, B], "
    "magnitude: int64[P, B], returns: float32[P, B], discount: float32[P, B], weight: float32[P, B], "
    "keep: int8[P, C, K], place: int64[P, B], loss: float32[P, B, K], d_values: float32[P, B, K, 6]"
)
_on_cuda, _on_cpu = for_cuda(head_target), for_cpu(head_target)
_next_cuda, _clipped_cuda, _lever_cuda = _on_cuda.next_value, _on_cuda.clipped, _on_cuda.lever
_next_cpu, _clipped_cpu, _lever_cpu = _on_cpu.next_value, _on_cpu.clipped, _on_cpu.lever


@cuda_kernel(BLOCK)
def ensemble_huber_kernel(
    values, chosen, valued, direction, magnitude, returns, discount, weight, keep, place, loss, d_values
):
    """Grid (P, B K / 128); a thread owns a head of a sample and writes its loss and six gradients. 101 bytes moved a
    head."""
    p, heads = uint32(cuda.blockIdx.x), uint32(values.shape[2])
    i = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if i >= uint32(values.shape[1]) * heads:
        return
    b, k = uint32(i // heads), uint32(i % heads)
    own, out = values[p, b, k], d_values[p, b, k]
    for j in range(uint32(2 * ACTIONS)):
        out[j] = ZERO
    if keep[p, uint32(place[p, b]), k] == 0:
        loss[p, b, k] = ZERO
        return
    taken = uint32(direction[p, b])
    share = HALF / (float32(values.shape[1]) * float32(heads)) * weight[p, b]
    target = fma(discount[p, b], _next_cuda(chosen[p, b, k], valued[p, b, k]), returns[p, b])
    error = own[taken] - target
    total = _clipped_cuda(error) * _lever_cuda(error)
    out[taken] = share * _clipped_cuda(error)
    if taken != uint32(FLAT):
        second = uint32(magnitude[p, b]) + uint32(ACTIONS)
        error = own[second] - target
        total = fma(_clipped_cuda(error), _lever_cuda(error), total)
        out[second] = share * _clipped_cuda(error)
    loss[p, b, k] = share * total


@cpu_kernel
def ensemble_huber_cpu(
    values, chosen, valued, direction, magnitude, returns, discount, weight, keep, place, loss, d_values
):
    members, batch, heads = values.shape[:3]
    for p in range(members):
        for b in range(batch):
            taken, second = direction[p, b], int64(ACTIONS) + magnitude[p, b]
            share = HALF / (float32(batch) * float32(heads)) * weight[p, b]
            for k in range(heads):
                own, out = values[p, b, k], d_values[p, b, k]
                for j in range(2 * ACTIONS):
                    out[j] = ZERO
                loss[p, b, k] = ZERO
                if keep[p, place[p, b], k] == 0:
                    continue
                target = cpu_fma(discount[p, b], _next_cpu(chosen[p, b, k], valued[p, b, k]), returns[p, b])
                error = own[taken] - target
                total = _clipped_cpu(error) * _lever_cpu(error)
                out[taken] = share * _clipped_cpu(error)
                if taken != FLAT:
                    error = own[second] - target
                    total = cpu_fma(_clipped_cpu(error), _lever_cpu(error), total)
                    out[second] = share * _clipped_cpu(error)
                loss[p, b, k] = share * total


KERNEL = CudaKernel(ensemble_huber_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, batch, heads = tensors[0].shape[:3]
    return [Launch(KERNEL, (lanes, -(-batch * heads // BLOCK)), tensors)]


OPERATION = Operation("ensemble_huber", ARGUMENTS, ensemble_huber_cpu, launches, (KERNEL,))


def ensemble_huber(
    values, chosen, valued, direction, magnitude, returns, discount, weight, keep, place, loss, d_values
) -> None:
    """Huber loss (delta 1) of every bootstrapped head to its own target (Osband et al. 2016, arXiv 1602.04621), mean of
    the two branches and of the heads.

    values, chosen, valued: float32[P, B, K, 6], values of 3 directions, then 3 magnitudes, by K heads: of the state,
    and of the bootstrap state by the online and the target network. A head's chosen actions are judged by its valued
    ones (double DQN, 1509.06461): the mean of the branches, or the direction alone where that is flat. direction,
    magnitude: int64[P, B] in 0..2, taken; a flat direction (1) leaves the magnitude out. returns, discount, weight:
    float32[P, B]. keep: int8[P, C, K], not 0 where a head learns from a place of the replay; place: int64[P, B] in
    0..C-1, unchecked. loss: float32[P, B, K], weight_b / (2 B K) x sum over branches of H(value - returns - discount
    next), so that its sum is the loss of the member; d_values: float32[P, B, K, 6], its gradient. Both exactly 0 where
    not kept, whatever the values are. No sums across threads. Same bits on every backend.
    """
    OPERATION(values, chosen, valued, direction, magnitude, returns, discount, weight, keep, place, loss, d_values)
