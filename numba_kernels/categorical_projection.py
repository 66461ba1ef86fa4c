"""Projection of a shifted categorical distribution back onto its support (C51)."""

from __future__ import annotations

import math

import numpy as np
from numba import float32, int32, int64

from . import distribution
from .argument import ArgumentError, declare
from .cpu_target import cpu_kernel, for_cpu
from .cuda_target import cuda, cuda_kernel, fma, for_cuda
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .operation import Operation

BLOCK = 64
MOST_ATOMS = 256
ARGUMENTS = declare(
    "p: float32[P, B, K], reward: float32[P, B], discount: float32[P, B], support: float32[P, K], out: float32[P, B, K]"
)

_on_cuda = for_cuda(distribution)
_position_cuda, _hat_cuda = _on_cuda.grid_position, _on_cuda.hat
_on_cpu = for_cpu(distribution)
_position_cpu, _hat_cpu = _on_cpu.grid_position, _on_cpu.hat


@cuda_kernel(BLOCK)
def categorical_projection_kernel(p, reward, discount, support, out):
    """Grid (P, B); a block owns a sample, a thread gathers atoms. Reads and writes each atom once: 8 bytes an atom."""
    mass = cuda.shared.array(MOST_ATOMS, float32)
    position = cuda.shared.array(MOST_ATOMS, float32)
    lane, sample, thread = int32(cuda.blockIdx.x), int32(cuda.blockIdx.y), int32(cuda.threadIdx.x)
    atoms = int32(support.shape[1])
    low, last = support[lane, 0], float32(atoms - int32(1))
    per_spacing = last / (support[lane, atoms - 1] - low)
    r, g = reward[lane, sample], discount[lane, sample]
    for j in range(thread, atoms, BLOCK):
        mass[j] = p[lane, sample, j]
        position[j] = _position_cuda(mass[j], r, g, support[lane, j], low, per_spacing, last)
    cuda.syncthreads()
    for i in range(thread, atoms, BLOCK):
        total = float32(0.0)
        for j in range(atoms):
            weight = _hat_cuda(position[j], float32(i))
            total = fma(mass[j], position[j] if math.isnan(position[j]) else weight, total)
        out[lane, sample, i] = total


@cpu_kernel
def categorical_projection_cpu(p, reward, discount, support, out):
    atoms = support.shape[1]
    last = float32(atoms - 1)
    for lane in range(p.shape[0]):
        low = support[lane, 0]
        per_spacing = last / (support[lane, atoms - 1] - low)
        for sample in range(p.shape[1]):
            row, r, g = out[lane, sample], reward[lane, sample], discount[lane, sample]
            row[:] = float32(0.0)
            for j in range(atoms):
                mass = p[lane, sample, j]
                position = _position_cpu(mass, r, g, support[lane, j], low, per_spacing, last)
                if math.isnan(position):
                    row[:] = np.nan
                    break
                near = int64(position)
                for i in range(near, min(near + 2, atoms)):  # every other hat is exactly 0 here
                    row[i] = cpu_fma(mass, _hat_cpu(position, float32(i)), row[i])


KERNEL = CudaKernel(categorical_projection_kernel, ARGUMENTS, BLOCK)


def launches(*tensors):
    lanes, samples = tensors[1].shape
    return [Launch(KERNEL, (lanes, samples), tensors)]


def _require(sizes):
    if not 2 <= sizes["K"] <= MOST_ATOMS:
        raise ArgumentError(f"categorical_projection(support): {sizes['K']} atoms, 2 to {MOST_ATOMS} wanted")


OPERATION = Operation("categorical_projection", ARGUMENTS, categorical_projection_cpu, launches, (KERNEL,), _require)


def categorical_projection(p, reward, discount, support, out) -> None:
    """out_i = sum_j [1 - |clip(r + g z_j, z_1, z_K) - z_i| / dz]_0^1 p_j (Bellemare, Dabney, Munos 2017, Algorithm 1).

    p, out: float32[P, B, K]; reward (n-step return), discount (gamma^m, 0 after termination): float32[P, B]; support:
    float32[P, K], each lane's own, equally spaced and rising. Sums run over j in order, by fused multiply-add. Mass is
    kept to rounding, also where a shifted atom falls on an atom or outside the support. A NaN or infinity makes its own
    sample NaN. Same bits on every backend.
    """
    OPERATION(p, reward, discount, support, out)
