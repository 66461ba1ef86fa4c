"""The one summation order of this package: strided lanes, then a halving tree.

Lane t of L adds elements t, t+L, t+2L, ... in turn; then lanes t and t+k are added for k = L/2, L/4, ..., 1. A block
of L CUDA threads does this without atomics, a CPU does it with vector instructions, and the bits agree. L is part of
the numeric contract of each kernel.
"""

from __future__ import annotations

from .cpu_target import cpu_function
from .cuda_target import cuda, cuda_function


@cpu_function
def sum_lanes_cpu(lanes):
    """Sums `lanes` (length a power of two) in place by the halving tree; returns the total."""
    half = lanes.size // 2
    while half > 0:
        for t in range(half):
            lanes[t] += lanes[t + half]
        half //= 2
    return lanes[0]


@cuda_function
def sum_lanes_cuda(shared, thread, width):
    """The same tree over each aligned group of `width` entries of `shared`, one entry a thread of the block.

    All threads of the block must call it; totals stand at the multiples of `width` and are visible to all on return.
    """
    cuda.syncthreads()
    lane = thread % width
    half = width // 2
    while half > 0:
        if lane < half:
            shared[thread] += shared[thread + half]
        cuda.syncthreads()
        half //= 2


@cpu_function
def sum_columns_cpu(lanes):
    """Sums `lanes` [L, N], L a power of two, over its rows by the halving tree; the totals stand in row 0."""
    half = lanes.shape[0] // 2
    while half > 0:
        for t in range(half):
            into, other = lanes[t], lanes[t + half]
            for i in range(into.size):
                into[i] += other[i]
        half //= 2


@cuda_function
def sum_columns_cuda(shared, thread, columns, lanes):
    """The same tree over `shared` [lanes * columns], one entry a thread; totals stand in the first `columns` entries.

    All threads of the block must call it.
    """
    cuda.syncthreads()
    half = lanes // 2
    while half > 0:
        if thread < half * columns:
            shared[thread] += shared[thread + half * columns]
        cuda.syncthreads()
        half //= 2
