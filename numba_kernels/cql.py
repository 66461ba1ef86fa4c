"""The conservative penalty of both branches in one pass: from head outputs to their gradients."""

from __future__ import annotations

import dataclasses

import numpy as np
from numba import float32

from . import elementary
from .argument import ArgumentError, declare
from .c51 import stream_width
from .c51_cpu import CHUNK, _base_cpu, _logits_cpu, _scan_dot, _weigh_cpu
from .c51_cuda import ACTIONS, ALIGN, BLOCK, FLAT, LANES, LOWEST, MOST_ATOMS, ONE, SAMPLES, THIRD, ZERO
from .cpu_target import cpu_function, cpu_kernel, for_cpu
from .cql_cuda import FEW, FEW_BFLOAT16, MANY, MANY_BFLOAT16
from .fma import cpu_fma
from .launch import CudaKernel, Launch
from .narrowed import NarrowedOperation, is_narrow, narrow_arguments
from .operation import Operation

ARGUMENTS = declare(
    "streams: float32[P, N, W], offset: float32[P, 6, K], direction: int64[P, B], magnitude: int64[P, B], "
    "support: float32[P, K], sample: float32[P, B], d_streams: float32[P, B, W]"
)
_on_cpu = for_cpu(elementary)
_exp_cpu, _log_cpu = _on_cpu.exp_below, _on_cpu.log_of


@cpu_function
def _values_cpu(row, offset, start, atoms, work, lanes, exps, support, totals, q):
    """Weights exp(logit - highest) of each action over `exps`, their sums and the expected atoms."""
    _base_cpu(row, start, atoms, work[0])
    for a in range(ACTIONS):
        _logits_cpu(row, offset, start, a, atoms, work)
        _, totals[a] = _weigh_cpu(work, lanes, exps[a])
        q[a] = _scan_dot(exps[a], support, lanes) / totals[a]


@cpu_function
def _surprise_cpu(q, taken, slopes):
    """logsumexp(q) - q[taken]; softmax(q) - onehot(taken) over `slopes`."""
    top = q[1] if q[1] > q[0] else q[0]
    top = q[2] if q[2] > top else top
    for a in range(ACTIONS):
        slopes[a] = _exp_cpu(q[a] - top)
    total = slopes[0] + slopes[1] + slopes[2]
    for a in range(ACTIONS):
        slopes[a] = slopes[a] / total - (ONE if a == taken else ZERO)
    return top + _log_cpu(total) - q[taken]


@cpu_function
def _branch_cpu(row, offset, start, taken, counts, atoms, share, work, lanes, exps, support, small, out):
    """Adds a branch's gradient to the value columns of `out`, writes its own, and returns its term."""
    totals, q, slopes = small[0], small[1], small[2]
    _values_cpu(row, offset, start, atoms, work, lanes, exps, support, totals, q)
    term = _surprise_cpu(q, taken, slopes)
    for a in range(ACTIONS):
        factor = slopes[a] * share / totals[a]
        for k in range(atoms):
            exps[a, k] = exps[a, k] * (support[k] - q[a]) * factor if counts else ZERO
    for k in range(atoms):
        total = exps[0, k] + exps[1, k] + exps[2, k]
        out[k] += total
        for a in range(ACTIONS):
            out[start + a * atoms + k] = cpu_fma(-THIRD, total, exps[a, k])
    return term


@cpu_kernel
def cql_cpu(streams, offset, direction, magnitude, support, sample, d_streams):
    atoms, batch = support.shape[1], sample.shape[1]
    start_d = (atoms + ALIGN - 1) // ALIGN * ALIGN
    start_m = start_d + (ACTIONS * atoms + ALIGN - 1) // ALIGN * ALIGN
    width = (atoms + CHUNK - 1) // CHUNK * CHUNK
    work, exps = np.zeros((2, width), np.float32), np.zeros((ACTIONS, width), np.float32)
    lanes, small, z = np.empty(LANES, np.float32), np.empty((3, ACTIONS), np.float32), np.zeros(width, np.float32)
    share = ONE / float32(batch)
    for k in range(width):
        work[1, k] = LOWEST
    for p in range(sample.shape[0]):
        for k in range(atoms):
            z[k] = support[p, k]
        of_d, of_m = offset[p, :ACTIONS], offset[p, ACTIONS:]
        for b in range(batch):
            row, out, taken_d, taken_m = streams[p, b], d_streams[p, b], direction[p, b], magnitude[p, b]
            for i in range(out.size):
                out[i] = ZERO
            counts = taken_d != FLAT
            term = _branch_cpu(row, of_d, start_d, taken_d, True, atoms, share, work, lanes, exps, z, small, out)
            more = _branch_cpu(row, of_m, start_m, taken_m, counts, atoms, share, work, lanes, exps, z, small, out)
            sample[p, b] = term + more if counts else term


STREAMS = {"streams", "d_streams"}
FLAT_ARGUMENTS = tuple(dataclasses.replace(a, sizes=("P", "M")) if a.name == "offset" else a for a in ARGUMENTS)
KERNELS = tuple(CudaKernel(body, FLAT_ARGUMENTS, BLOCK) for body in (FEW, MANY))
NARROW_KERNELS = tuple(
    CudaKernel(body, narrow_arguments(FLAT_ARGUMENTS, STREAMS), BLOCK) for body in (FEW_BFLOAT16, MANY_BFLOAT16)
)


def launches(streams, offset, direction, magnitude, support, sample, d_streams):
    lanes, samples = sample.shape
    few, many = NARROW_KERNELS if is_narrow(streams) else KERNELS
    kernel = few if support.shape[1] <= 4 * LANES else many
    values = (streams, offset.view(lanes, -1), direction, magnitude, support, sample, d_streams)
    return [Launch(kernel, (lanes, -(-samples // SAMPLES)), values)]


def _require(sizes):
    atoms, width = sizes["K"], sizes["W"]
    if not 2 <= atoms <= MOST_ATOMS:
        raise ArgumentError(f"cql(support): {atoms} atoms, 2 to {MOST_ATOMS} wanted")
    if width != stream_width(atoms):
        raise ArgumentError(f"cql(streams): {width} columns, {stream_width(atoms)} wanted for {atoms} atoms")
    if sizes["N"] < sizes["B"]:
        raise ArgumentError(f"cql(streams): {sizes['N']} rows, at least {sizes['B']} wanted")


OPERATION = Operation("cql", ARGUMENTS, cql_cpu, launches, KERNELS, _require)
NARROWED = NarrowedOperation(
    "cql_bfloat16", narrow_arguments(ARGUMENTS, STREAMS), cql_cpu, launches, NARROW_KERNELS, _require, wide=OPERATION
)


def cql(streams, offset, direction, magnitude, support, sample, d_streams) -> None:
    """Conservative penalty CQL(H) (Kumar et al. 2020, 2006.04779, eq. 4) of two dueling branches, with its gradient.

    streams: float32[P, N, W] or bfloat16, offset: float32[P, 6, K] and support: float32[P, K] as `c51` takes them; the
    first B of the N rows count. direction, magnitude: int64[P, B] in 0..2, the actions in the data. With the action
    values q_a = sum_i z_i p_i(a) of each branch: sample: float32[P, B] = sum over branches of log sum_a exp q_a - q of
    the action, the magnitude's term 0 where the direction is flat (1); d_streams: [P, B, W] in the streams' dtype, the
    gradient of the mean of `sample` over B, padding 0.

    Every sum runs over 16 strided lanes, then a halving tree; exp and log are our own: same bits on every backend.
    Anything that is not finite in a sample makes that sample NaN and no other. Capture-safe.
    """
    (NARROWED if is_narrow(streams) else OPERATION)(streams, offset, direction, magnitude, support, sample, d_streams)
