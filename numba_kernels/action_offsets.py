"""What the biases of the three heads add to the logits of each action: the dueling sum of biases."""

from __future__ import annotations

from numba import float32, uint32

from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel
from .cuda_target import cuda, cuda_kernel
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
ACTIONS = 3
THREE = float32(3.0)
ARGUMENTS = declare(
    "value: float32[P:, K], direction: float32[P:, N], magnitude: float32[P:, N], out: float32[P, 6, K]"
)


@cuda_kernel(BLOCK)
def action_offsets_kernel(value, direction, magnitude, out):
    """Grid (P, K / 64); a thread owns an atom of both branches. 52 bytes moved an atom."""
    p, atoms = uint32(cuda.blockIdx.x), uint32(out.shape[2])
    k = uint32(cuda.blockIdx.y) * uint32(BLOCK) + uint32(cuda.threadIdx.x)
    if k >= atoms:
        return
    own, into = value[p, k], out[p]
    d0, d1, d2 = direction[p, k], direction[p, k + atoms], direction[p, k + atoms + atoms]
    m0, m1, m2 = magnitude[p, k], magnitude[p, k + atoms], magnitude[p, k + atoms + atoms]
    of_d, of_m = own - (d0 + d1 + d2) / THREE, own - (m0 + m1 + m2) / THREE
    into[uint32(0), k], into[uint32(1), k], into[uint32(2), k] = of_d + d0, of_d + d1, of_d + d2
    into[uint32(3), k], into[uint32(4), k], into[uint32(5), k] = of_m + m0, of_m + m1, of_m + m2


@cpu_kernel
def action_offsets_cpu(value, direction, magnitude, out):
    atoms = out.shape[2]
    for p in range(out.shape[0]):
        for branch in range(2):
            head = magnitude[p] if branch == 1 else direction[p]
            for k in range(atoms):
                base = value[p, k] - (head[k] + head[k + atoms] + head[k + 2 * atoms]) / THREE
                for a in range(ACTIONS):
                    out[p, ACTIONS * branch + a, k] = base + head[k + a * atoms]


KERNEL = CudaKernel(action_offsets_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, _, atoms = tensors[3].shape
    return [Launch(KERNEL, (lanes, -(-atoms // BLOCK)), tensors)]


def _require(sizes):
    if sizes["N"] != ACTIONS * sizes["K"]:
        raise ArgumentError(f"action_offsets(direction): {sizes['N']} columns, {ACTIONS} x {sizes['K']} atoms wanted")


OPERATION = Operation("action_offsets", ARGUMENTS, action_offsets_cpu, launches, (KERNEL,), _require)


def action_offsets(value, direction, magnitude, out) -> None:
    """out[p, 3 j + a] = value + b_a - mean of b, b the biases of branch j, a its action (Wang et al. 2016, eq. 9).

    value: float32[P, K]; direction, magnitude: float32[P, 3 K], an action's atoms together; the lanes of these three
    may lie apart; out: float32[P, 6, K]. Sums of three in order. Same bits on every backend.
    """
    OPERATION(value, direction, magnitude, out)
