"""The CUDA kernel of the conservative penalty of two branches; `cql` says what it computes."""

from __future__ import annotations

from typing import Any

from numba import float32, int32, uint32, uint64

from . import elementary, halves
from .c51_cuda import ACTIONS, ALIGN, BLOCK, FLAT, LANES, ONE, SAMPLES, SLOTS, THIRD, ZERO, make_pad, make_readers
from .c51_cuda import _as_it_is as as_it_is
from .c51_cuda import _sum as sum_lanes
from .c51_cuda import _weigh as weigh
from .cuda_target import cuda, cuda_function, cuda_kernel, fma, for_cuda

_on_cuda = for_cuda(elementary)
_exp_cuda, _log_cuda = _on_cuda.exp_below, _on_cuda.log_of


@cuda_function
def _weigh_and_value(x, z):
    """exp(x - highest) in place; returns their sum and the expected atom."""
    _, total = weigh(x)
    dot = ZERO
    for s in range(x.size):
        dot = fma(x[s], z[s], dot)
    return total, sum_lanes(dot) / total


@cuda_function
def _surprise(q0, q1, q2, taken):
    """logsumexp(q) - q[taken], and softmax(q) - onehot(taken)."""
    top = q1 if q1 > q0 else q0
    top = q2 if q2 > top else top
    e0, e1, e2 = _exp_cuda(q0 - top), _exp_cuda(q1 - top), _exp_cuda(q2 - top)
    total = e0 + e1 + e2
    own = q1 if taken == 1 else (q2 if taken == 2 else q0)
    g0, g1, g2 = e0 / total, e1 / total, e2 / total
    g0, g1 = g0 - (ONE if taken == 0 else ZERO), g1 - (ONE if taken == 1 else ZERO)
    return top + _log_cuda(total) - own, g0, g1, g2 - (ONE if taken == 2 else ZERO)


@cuda_function
def _branch(z, x0, x1, x2, taken, share):
    """The term of a branch from its logits, which become its gradient at them; `share` is what each counts for."""
    total0, q0 = _weigh_and_value(x0, z)
    total1, q1 = _weigh_and_value(x1, z)
    total2, q2 = _weigh_and_value(x2, z)
    term, g0, g1, g2 = _surprise(q0, q1, q2, taken)
    g0, g1, g2 = g0 * share / total0, g1 * share / total1, g2 * share / total2
    for s in range(z.size):
        x0[s], x1[s], x2[s] = x0[s] * (z[s] - q0) * g0, x1[s] * (z[s] - q1) * g1, x2[s] * (z[s] - q2) * g2
    return term


def make_kernel(slots: int, kind: str = "", widen: Any = as_it_is, narrow: Any = as_it_is) -> Any:
    """The kernel for up to 16 * slots atoms; `widen` and `narrow` as for `c51_cuda.make_kernel`."""
    width = slots * LANES
    _, read_all, _ = make_readers(widen)
    pad = make_pad(narrow)

    @cuda_function
    def spread(gradient, at, wide, count, x0, x1, x2):
        """The gradient at a branch's advantages, from that at its logits; x0 becomes what the value head gets."""
        for s in range(x0.size):
            if s * LANES < count:
                k = at + uint64(s * LANES)
                total = x0[s] + x1[s] + x2[s]
                gradient[k] = narrow(fma(-THIRD, total, x0[s]))
                gradient[k + wide] = narrow(fma(-THIRD, total, x1[s]))
                gradient[k + wide + wide] = narrow(fma(-THIRD, total, x2[s]))
                x0[s] = total

    @cuda_kernel(BLOCK)
    def cql_kernel(streams, offset, direction, magnitude, support, sample, d_streams):
        """Grid (P, B / 8); 16 threads own a sample, block (p, i) writes samples 8i to 8i + 7 of member p, every column.

        W floats read and W written a sample: 3.1 KB with 51 atoms.
        """
        x0, x1 = cuda.local.array(slots, float32), cuda.local.array(slots, float32)
        x2, z = cuda.local.array(slots, float32), cuda.local.array(slots, float32)
        of_value = cuda.local.array(slots, float32)
        p, thread = uint32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        t, batch = thread % LANES, int32(sample.shape[1])
        b = int32(cuda.blockIdx.y) * int32(SAMPLES) + thread // LANES
        inside = b < batch
        own_b = uint32(min(b, batch - int32(1)))  # all threads take part in the exchanges between them
        atoms = int32(support.shape[1])
        start_d = (atoms + ALIGN - 1) // ALIGN * ALIGN
        start_m = start_d + (ACTIONS * atoms + ALIGN - 1) // ALIGN * ALIGN
        wide, count = uint64(atoms), atoms - t
        at, at_d, at_m = uint64(t), uint64(start_d + t), uint64(start_m + t)
        row, own, atom, gradient = streams[p, own_b], offset[p], support[p], d_streams[p, own_b]
        for s in range(slots):
            z[s] = atom[uint64(min(t + s * LANES, atoms - 1))]
        taken_d, taken_m, share = int32(direction[p, own_b]), int32(magnitude[p, own_b]), ONE / float32(batch)
        flat = taken_d == FLAT

        read_all(row, own, at, at_d, at, wide, count, x0, x1, x2)
        term = _branch(z, x0, x1, x2, taken_d, share)
        for s in range(slots):
            of_value[s] = x0[s] + x1[s] + x2[s]
        if inside:
            spread(gradient, at_d, wide, count, x0, x1, x2)
        read_all(row, own, at, at_m, uint64(ACTIONS * atoms + t), wide, count, x0, x1, x2)
        of_magnitude = _branch(z, x0, x1, x2, taken_m, share)
        for s in range(slots):
            x0[s], x1[s] = ZERO if flat else x0[s], ZERO if flat else x1[s]
            x2[s] = ZERO if flat else x2[s]
        if inside:
            spread(gradient, at_m, wide, count, x0, x1, x2)
            for s in range(slots):
                if s * LANES < count:
                    gradient[at + uint64(s * LANES)] = narrow(of_value[s] + x0[s])
            pad(gradient, atoms, start_d, start_m, t)
            if t == 0:
                sample[p, own_b] = term if flat else term + of_magnitude

    cql_kernel.py_func.__name__ = f"cql_{width}_atoms{kind}_kernel"
    return cql_kernel


FEW, MANY = (make_kernel(slots) for slots in SLOTS)
_halves = for_cuda(halves)
FEW_BFLOAT16, MANY_BFLOAT16 = (make_kernel(slots, "_bfloat16", _halves.widen, _halves.narrow) for slots in SLOTS)
