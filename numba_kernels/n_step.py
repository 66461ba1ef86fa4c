"""n-step transitions from a replay ring: everything a batch needs of the drawn places, in one pass."""

from __future__ import annotations

from numba import float32, int32, int64

from .argument import declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel, fma
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 128
TERMINATED = 1  # bit of a transition's flags; any flag ends the episode
ARGUMENTS = declare(
    "row: int32[P, C, E], target: int8[P, C, E], executed: int8[P, C, E], direction: int8[P, C, E], "
    "magnitude: int8[P, C, E], reward: float32[P, C, E], flags: int8[P, C, E], index: int64[P, B], "
    "discount: float32[P:], n_step: int64, states: int64[P, 3, B], targets: int64[P, 3, B], "
    "actions: int64[P, 2, B], numbers: float32[P, 3, B]"
)


@cuda_kernel(BLOCK)
def n_step_kernel(
    row,
    target,
    executed,
    direction,
    magnitude,
    reward,
    flags,
    index,
    discount,
    n_step,
    states,
    targets,
    actions,
    numbers,
):
    """Grid (P, B / BLOCK); a thread owns a sample and walks up to n columns of its walk. About 160 bytes a sample."""
    p = int32(cuda.blockIdx.x)
    b = int32(cuda.blockIdx.y) * int32(BLOCK) + int32(cuda.threadIdx.x)
    if b >= index.shape[1]:
        return
    columns, walks, place = int64(row.shape[1]), int64(row.shape[2]), index[p, b]
    column, e = place // walks, place % walks
    total, power, gamma, at = float32(0.0), float32(1.0), discount[p, 0], column
    for k in range(n_step):
        at = (column + k) % columns
        total = fma(power, reward[p, at, e], total)
        power = power * gamma
        if flags[p, at, e] != 0:
            break
    states[p, 0, b], states[p, 1, b] = row[p, column, e], row[p, column, e] + 1
    states[p, 2, b] = row[p, at, e] + 1
    targets[p, 0, b], targets[p, 1, b] = target[p, column, e], executed[p, column, e]
    targets[p, 2, b] = executed[p, at, e]
    actions[p, 0, b], actions[p, 1, b] = direction[p, column, e], magnitude[p, column, e]
    numbers[p, 0, b] = float32(1.0) if flags[p, column, e] == 0 else float32(0.0)
    numbers[p, 1, b] = total
    numbers[p, 2, b] = float32(0.0) if flags[p, at, e] & TERMINATED != 0 else power


@cpu_kernel
def n_step_cpu(
    row,
    target,
    executed,
    direction,
    magnitude,
    reward,
    flags,
    index,
    discount,
    n_step,
    states,
    targets,
    actions,
    numbers,
):
    columns, walks = row.shape[1], row.shape[2]
    for p in range(index.shape[0]):
        gamma = discount[p, 0]
        for b in range(index.shape[1]):
            column, e = index[p, b] // walks, index[p, b] % walks
            total, power, at = float32(0.0), float32(1.0), column
            for k in range(n_step):
                at = (column + k) % columns
                total = cpu_fma(power, reward[p, at, e], total)
                power = power * gamma
                if flags[p, at, e] != 0:
                    break
            states[p, 0, b], states[p, 1, b] = row[p, column, e], row[p, column, e] + 1
            states[p, 2, b] = row[p, at, e] + 1
            targets[p, 0, b], targets[p, 1, b] = target[p, column, e], executed[p, column, e]
            targets[p, 2, b] = executed[p, at, e]
            actions[p, 0, b], actions[p, 1, b] = direction[p, column, e], magnitude[p, column, e]
            numbers[p, 0, b] = float32(1.0) if flags[p, column, e] == 0 else float32(0.0)
            numbers[p, 1, b] = total
            numbers[p, 2, b] = float32(0.0) if flags[p, at, e] & TERMINATED != 0 else power


KERNEL = CudaKernel(n_step_kernel, ARGUMENTS, BLOCK)


def launches(*values):
    lanes, samples = values[7].shape
    return [Launch(KERNEL, (lanes, -(-samples // BLOCK)), values)]


OPERATION = Operation("n_step", ARGUMENTS, n_step_cpu, launches, (KERNEL,))


def n_step(
    row,
    target,
    executed,
    direction,
    magnitude,
    reward,
    flags,
    index,
    discount,
    n_step,
    states,
    targets,
    actions,
    numbers,
) -> None:
    """What the ring holds of the places `index` (column * E + walk) and of the columns that follow.

    With m = min(n, steps to the end of the episode): R = sum_{k<m} g^k r_{t+k} and the bootstrap factor g^m, 0 where
    the episode terminated (Rainbow, Hessel et al. 2018, section 3; truncation still bootstraps). row: int32[P, C, E],
    reward: float32[P, C, E], the other fields int8[P, C, E]; index: int64[P, B]; discount: float32[P]; n_step: int from
    1 on. Written: states int64[P, 3, B], market rows at t, t + 1, t + m; targets int64[P, 3, B], last target before the
    action, after it, and at t + m; actions int64[P, 2, B], direction and magnitude; numbers float32[P, 3, B], 1 where t
    + 1 belongs to the same episode, R, and the factor. Sums run over k in order. Same bits on every backend.
    """
    OPERATION(
        row,
        target,
        executed,
        direction,
        magnitude,
        reward,
        flags,
        index,
        discount,
        n_step,
        states,
        targets,
        actions,
        numbers,
    )
