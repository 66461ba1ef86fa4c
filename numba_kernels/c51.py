"""The whole categorical loss of both branches in one pass: from head outputs to their gradients."""

from __future__ import annotations

import dataclasses

from .argument import ArgumentError, declare
from .c51_cpu import c51_cpu
from .c51_cuda import ACTIONS, ALIGN, BLOCK, FEW, FEW_BFLOAT16, LANES, MANY, MANY_BFLOAT16, MOST_ATOMS, SAMPLES
from .launch import CudaKernel, Launch
from .narrowed import NarrowedOperation, is_narrow, narrow_arguments
from .operation import Operation

ARGUMENTS = declare(
    "online: float32[P, N, W], online_offset: float32[P, 6, K], valued: float32[P, B, W], "
    "valued_offset: float32[P, 6, K], direction: int64[P, B], magnitude: int64[P, B], "
    "reward: float32[P, B], discount: float32[P, B], weight: float32[P, B], support: float32[P, K], "
    "sample: float32[P, B], priority: float32[P, B], next_direction: int64[P, B], next_magnitude: int64[P, B], "
    "d_streams: float32[P, B, W]"
)


def stream_width(atoms: int) -> int:
    """Columns of the value, direction and magnitude outputs side by side, each padded to a multiple of 32."""
    value, branch = (-(-columns // ALIGN) * ALIGN for columns in (atoms, ACTIONS * atoms))
    return value + 2 * branch


FLAT_ARGUMENTS = tuple(dataclasses.replace(a, sizes=("P", "M")) if a.name.endswith("_offset") else a for a in ARGUMENTS)
STREAMS = {"online", "valued", "d_streams"}
KERNELS = tuple(CudaKernel(body, FLAT_ARGUMENTS, BLOCK) for body in (FEW, MANY))
NARROW_KERNELS = tuple(
    CudaKernel(body, narrow_arguments(FLAT_ARGUMENTS, STREAMS), BLOCK) for body in (FEW_BFLOAT16, MANY_BFLOAT16)
)


def launches(*tensors):
    lanes, samples = tensors[4].shape
    few, many = NARROW_KERNELS if is_narrow(tensors[0]) else KERNELS
    kernel = few if tensors[9].shape[1] <= 4 * LANES else many
    values = [t.view(lanes, t.shape[1] * t.shape[2]) if i in (1, 3) else t for i, t in enumerate(tensors)]  # offsets
    return [Launch(kernel, (lanes, -(-samples // SAMPLES)), tuple(values))]


def _require(sizes):
    atoms, width = sizes["K"], sizes["W"]
    if not 2 <= atoms <= MOST_ATOMS:
        raise ArgumentError(f"c51(support): {atoms} atoms, 2 to {MOST_ATOMS} wanted")
    if width != stream_width(atoms):
        raise ArgumentError(f"c51(online): {width} columns, {stream_width(atoms)} wanted for {atoms} atoms")
    if sizes["N"] != 2 * sizes["B"]:
        raise ArgumentError(f"c51(online): {sizes['N']} rows, {2 * sizes['B']} wanted: the states and their successors")


OPERATION = Operation("c51", ARGUMENTS, c51_cpu, launches, KERNELS, _require)
NARROWED = NarrowedOperation(
    "c51_bfloat16",
    narrow_arguments(ARGUMENTS, STREAMS),
    c51_cpu,
    launches,
    NARROW_KERNELS,
    _require,
    wide=OPERATION,
)


def c51(
    online,
    online_offset,
    valued,
    valued_offset,
    direction,
    magnitude,
    reward,
    discount,
    weight,
    support,
    sample,
    priority,
    next_direction,
    next_magnitude,
    d_streams,
) -> None:
    """Categorical double-DQN loss of two dueling branches with its gradient (Bellemare, Dabney, Munos 2017, Algorithm
    1; van Hasselt et al. 2016; Wang et al. 2016; branching: Tavakoli et al. 2018).

    A row of streams holds the value head's K atoms, then 3 K of the direction and 3 K of the magnitude branch, each
    padded to a multiple of 32 columns, before their biases: action a has the logits v - mean_a d + d_a + offset_a, with
    offsets float32[P, 6, K] of 3 directions, then 3 magnitudes. online: float32[P, 2B, W], states, then their n-step
    successors; valued: float32[P, B, W], the successors by the target network; direction, magnitude: int64[P, B] in
    0..2, actions taken (direction 1 is flat: the magnitude has no effect); reward, discount, weight: float32[P, B];
    support: float32[P, K]. The streams may be bfloat16, all three: everything between them is float32.

    Target: the online network's greedy action of each branch, the target network's distributions p_d and p_m there,
    p = p_d after a flat direction and (p_d + p_m)/2 otherwise, projected: m_i = sum_j [1 - |clip(r + g z_j, z_1, z_K) -
    z_i| / dz]_0^1 p_j. Outputs: sample = (H(m, p_d) + H(m, p_m))/2 of the taken actions, the magnitude's half 0 where
    flat was taken; priority = KL(m | p_d) + KL(m | p_m), never negative; next_direction, next_magnitude: int64[P, B];
    d_streams: float32[P, B, W], gradient of sum_b weight_b sample_b / B, padding 0.

    Every sum runs over 16 strided lanes, then a halving tree; exp and log are our own: same bits on every backend.
    Anything that is not finite in a sample makes that sample NaN and no other. Capture-safe.
    """
    operation = NARROWED if is_narrow(online) else OPERATION
    operation(
        online,
        online_offset,
        valued,
        valued_offset,
        direction,
        magnitude,
        reward,
        discount,
        weight,
        support,
        sample,
        priority,
        next_direction,
        next_magnitude,
        d_streams,
    )
