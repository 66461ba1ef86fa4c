"""Counter-based uniform random numbers."""

from __future__ import annotations

from numba import int32, uint64

from . import splitmix64
from .argument import declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, for_cuda
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 128
ARGUMENTS = declare("key: uint64[P], purpose: uint64, step: uint64[P], out: float32[P, N]")
WORD = 2**64 - 1

_on_cuda = for_cuda(splitmix64)
_seed_cuda, _output_cuda, _unit_cuda = _on_cuda.stream_seed, _on_cuda.output, _on_cuda.unit_interval
_on_cpu = for_cpu(splitmix64)
_seed_cpu, _output_cpu, _unit_cpu = _on_cpu.stream_seed, _on_cpu.output, _on_cpu.unit_interval


@cuda_kernel(BLOCK)
def uniform_kernel(key, purpose, step, out):
    """Grid (columns / BLOCK, P): rows of any length; a thread writes one number. 4 bytes written a number."""
    lane = int32(cuda.blockIdx.y)
    column = int32(cuda.blockIdx.x) * int32(BLOCK) + int32(cuda.threadIdx.x)
    if column < out.shape[1]:
        seed = _seed_cuda(key[lane], uint64(purpose), step[lane])
        out[lane, column] = _unit_cuda(_output_cuda(seed, uint64(column)))


@cpu_kernel
def uniform_cpu(key, purpose, step, out):
    for lane in range(out.shape[0]):
        seed = _seed_cpu(key[lane], uint64(purpose), step[lane])
        row = out[lane]
        for column in range(row.size):
            row[column] = _unit_cpu(_output_cpu(seed, uint64(column)))


KERNEL = CudaKernel(uniform_kernel, ARGUMENTS, BLOCK)


def launches(key, purpose, step, out):
    lanes, columns = out.shape
    return [Launch(KERNEL, (-(-columns // BLOCK), lanes), (key, purpose, step, out))]


OPERATION = Operation("uniform", ARGUMENTS, uniform_cpu, launches, (KERNEL,))


def uniform(key, purpose, step, out) -> None:
    """Writes uniform numbers in [0, 1): out[p, n] is a function of (key[p], purpose, step[p], n) alone.

    key, step: int64[P], read as 64-bit patterns; purpose: a Python int (constant once captured in a CUDA graph); out:
    float32[P, N], multiples of 2^-24. The n-th number is the n-th word of a SplitMix64 generator whose seed is a hash
    of the other three, so neither the lane nor the batch size enters. Same bits on every backend.
    """
    OPERATION(key, purpose & WORD, step, out)
