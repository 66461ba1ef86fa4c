"""Places drawn from a replay in which all startable places weigh alike: what proportional sampling comes to there."""

from __future__ import annotations

from numba import int64, uint32, uint64

from . import even_places
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 128
ARGUMENTS = declare(
    "bars: int64[P], u: float32[P, B], columns: int64, environments: int64, n_step: int64, out: int64[P, B]"
)
_place_cuda, _place_cpu = for_cuda(even_places).place, for_cpu(even_places).place


@cuda_kernel(BLOCK)
def draw_evenly_kernel(bars, u, columns, environments, n_step, out):
    """Grid (P, B / 128); a thread draws a place. 12 bytes moved a place."""
    lane = uint32(cuda.blockIdx.x)
    b = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    batch = uint32(out.shape[1])
    if b < batch:
        place = _place_cuda(u[lane, b], uint64(b), uint64(batch), bars[lane], columns, environments, n_step)
        out[lane, b] = int64(place)


@cpu_kernel
def draw_evenly_cpu(bars, u, columns, environments, n_step, out):
    batch = out.shape[1]
    for lane in range(out.shape[0]):
        for b in range(batch):
            place = _place_cpu(u[lane, b], uint64(b), uint64(batch), bars[lane], columns, environments, n_step)
            out[lane, b] = int64(place)


KERNEL = CudaKernel(draw_evenly_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, batch = tensors[1].shape
    return [Launch(KERNEL, (lanes, -(-batch // BLOCK)), tensors)]


OPERATION = Operation("draw_evenly", ARGUMENTS, draw_evenly_cpu, launches, (KERNEL,))


def draw_evenly(bars, u, columns, environments, n_step, out) -> None:
    """One place from each of B equal parts of the startable places of a ring of `columns` x `environments`.

    bars: int64[P], columns written so far, at least n_step; u: float32[P, B] in [0, 1), multiples of 2^-24; out:
    int64[P, B]. Startable are all written columns but the n_step - 1 newest, which in a full ring lie before the write
    position and may reach around its start. Whole numbers throughout, so exact: B times the number of places must stay
    below 2^40. Places do not mix. Same bits on every backend.
    """
    OPERATION(bars, u, columns, environments, n_step, out)
