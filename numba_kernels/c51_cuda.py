"""The CUDA kernel of the categorical loss of two branches; `c51` says what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int32, uint32, uint64

from . import elementary, halves
from .cuda_target import cuda, cuda_function, cuda_kernel, fma, for_cuda

LANES = 16  # threads a sample
SAMPLES = 8  # samples a block
BLOCK = LANES * SAMPLES
MOST_ATOMS = 96
ALIGN = 32  # columns: each head's outputs begin at a multiple
ACTIONS, FLAT = 3, 1
ZERO, HALF, ONE, THIRD = float32(0.0), float32(0.5), float32(1.0), float32(1.0 / 3.0)
LOWEST, TINY = float32(-np.inf), float32(2.0**-126)
AWAY = float32(-2.0)  # a place on the grid that no atom is near to
FLATTEST = float32(0.05)  # discount below which every atom is looked at

_on_cuda = for_cuda(elementary)
_exp_cuda, _log_cuda = _on_cuda.exp_below, _on_cuda.log_of


@cuda_function
def _as_it_is(x):
    return x


@cuda_function
def _sum(x):
    """Sum over the 16 threads of a sample by the halving tree, on all of them."""
    for step in (8, 4, 2, 1):
        x += cuda.shfl_xor_sync(0xFFFFFFFF, x, step)
    return x


@cuda_function
def _highest(x):
    for step in (8, 4, 2, 1):
        x = max(x, cuda.shfl_xor_sync(0xFFFFFFFF, x, step))
    return x


@cuda_function
def _sums_of(x):
    """Sum over the entries of a thread, in order, then over the 16 threads of its sample."""
    total = ZERO
    for s in range(x.size):
        total += x[s]
    return _sum(total)


@cuda_function
def _weigh(x):
    """exp(x - highest) in place; returns the highest entry and the sum."""
    top = LOWEST
    for s in range(x.size):
        top = max(top, x[s])
    top = _highest(top)
    for s in range(x.size):
        x[s] = _exp_cuda(x[s] - top)
    return top, _sums_of(x)


@cuda_function
def _value_of(x, z):
    """Expected atom under the logits `x`, which are lost."""
    _, total = _weigh(x)
    dot = ZERO
    for s in range(x.size):
        dot = fma(x[s], z[s], dot)
    return _sum(dot) / total


@cuda_function
def _log_normaliser(x, scratch):
    """log of the sum of exp(x)."""
    for s in range(x.size):
        scratch[s] = x[s]
    top, total = _weigh(scratch)
    return top + _log_cuda(total)


@cuda_function
def _project(direction, magnitude, alone, r, g, atom, atoms, t, shelf, mass, place_of, z, out):
    """The target over `out`, from the logits `direction` and `magnitude` of the next actions, which are lost. Returns
    its sum and its entropy.

    `alone`: the next direction is flat, and its distribution stands for both. `shelf` is where this sample's entries
    of the shared `mass` and `place_of` begin. All threads of the block must call it.
    """
    _, sum_d = _weigh(direction)
    _, sum_m = _weigh(magnitude)
    share_d = ONE / sum_d if alone else HALF / sum_d
    share_m = ZERO if alone else HALF / sum_m
    # where each atom's mass goes on the grid; what leaves it is summed at the ends
    low, last = atom[uint32(0)], float32(atoms - 1)
    per_spacing = last / (atom[uint64(atoms - 1)] - low)
    below, above, mine = ZERO, ZERO, shelf + uint64(t)
    for s in range(out.size):
        share = fma(ZERO if alone else magnitude[s], share_m, direction[s] * share_d)
        where = (fma(g, z[s], r) - low) * per_spacing
        below += share if where <= ZERO else ZERO
        above += share if where >= last else ZERO
        mass[mine + uint64(s * LANES)] = share
        place_of[mine + uint64(s * LANES)] = where if where > ZERO and where < last else AWAY
    below, above = _sum(below), _sum(above)
    broken = (r - r) + (g - g) + (share_d - share_d) + (share_m - share_m)  # 0, or NaN where one is not finite
    broken += per_spacing - per_spacing
    cuda.syncthreads()
    first, per_discount = (fma(g, low, r) - low) * per_spacing, ONE / g
    total, entropy = ZERO, ZERO
    for s in range(out.size):
        i = t + s * LANES
        begin, stop = int32(0), atoms
        if g > FLATTEST and first == first:  # a broken return has no window
            begin = int32(min(max((float32(i - 1) - first) * per_discount - ONE, ZERO), last))
            stop = int32(min(max((float32(i + 1) - first) * per_discount + ONE, ZERO), last)) + int32(1)
        m = broken + (below if i == 0 else (above if i == atoms - 1 else ZERO))
        for j in range(shelf + uint64(begin), shelf + uint64(stop)):
            m = fma(mass[j], max(ONE - abs(place_of[j] - float32(i)), ZERO), m)
        m = m if i < atoms else ZERO
        out[s] = m
        total += m
        entropy = fma(-m, _log_cuda(max(m, TINY)), entropy)
    return _sum(total), _sum(entropy)


def make_readers(widen: Any) -> tuple[Any, Any, Any]:
    """Functions `read`, `read_all` and `greedy` of rows whose entries `widen` turns into float32."""

    @cuda_function
    def read(row, offset, value, first, place, action, atoms, count, out):
        """The action's own logits over `out`, -inf beyond the atoms.

        Indices of this thread's first entries: `value` of the value head, `first` of the branch's first action, `place`
        of the action's offset. `count` atoms are left from this thread's first one on.
        """
        second, third = first + atoms, first + atoms + atoms
        for s in range(out.size):
            out[s] = LOWEST
            if s * LANES < count:
                k = uint64(s * LANES)
                d0, d1, d2 = widen(row[first + k]), widen(row[second + k]), widen(row[third + k])
                advantage = d1 if action == 1 else (d2 if action == 2 else d0)
                out[s] = fma(-THIRD, d0 + d1 + d2, widen(row[value + k])) + advantage + offset[place + k]

    @cuda_function
    def read_all(row, offset, value, first, place, atoms, count, x0, x1, x2):
        """The logits of a branch's three actions over `x0`, `x1` and `x2`, -inf beyond the atoms. Indices as in
        `read`."""
        second, third = first + atoms, first + atoms + atoms
        for s in range(x0.size):
            x0[s], x1[s], x2[s] = LOWEST, LOWEST, LOWEST
            if s * LANES < count:
                k = uint64(s * LANES)
                d0, d1, d2 = widen(row[first + k]), widen(row[second + k]), widen(row[third + k])
                base = fma(-THIRD, d0 + d1 + d2, widen(row[value + k]))
                x0[s] = base + d0 + offset[place + k]
                x1[s] = base + d1 + offset[place + atoms + k]
                x2[s] = base + d2 + offset[place + atoms + atoms + k]

    @cuda_function
    def greedy(row, offset, value, first, place, atoms, count, z, x0, x1, x2):
        """The branch's action with the largest expected return; the first of equals.

        It reads as `read_all` does: a call in its place takes the widest kernel's arrays out of the registers.
        """
        second, third = first + atoms, first + atoms + atoms
        for s in range(x0.size):
            x0[s], x1[s], x2[s] = LOWEST, LOWEST, LOWEST
            if s * LANES < count:
                k = uint64(s * LANES)
                d0, d1, d2 = widen(row[first + k]), widen(row[second + k]), widen(row[third + k])
                base = fma(-THIRD, d0 + d1 + d2, widen(row[value + k]))
                x0[s] = base + d0 + offset[place + k]
                x1[s] = base + d1 + offset[place + atoms + k]
                x2[s] = base + d2 + offset[place + atoms + atoms + k]
        q0, q1, q2 = _value_of(x0, z), _value_of(x1, z), _value_of(x2, z)
        best = int32(1) if q1 > q0 else int32(0)
        return int32(2) if q2 > max(q0, q1) else best

    return read, read_all, greedy


def make_pad(narrow: Any) -> Any:
    """A function that zeroes the columns of a sample's gradient that belong to no atom."""

    @cuda_function
    def pad(gradient, atoms, start_d, start_m, t):
        for i in range(atoms + t, start_d, LANES):
            gradient[uint32(i)] = narrow(ZERO)
        for i in range(ACTIONS * atoms + t, start_m - start_d, LANES):
            gradient[uint32(start_d + i)] = narrow(ZERO)
            gradient[uint32(start_m + i)] = narrow(ZERO)

    return pad


def make_kernel(slots: int, kind: str = "", widen: Any = _as_it_is, narrow: Any = _as_it_is) -> Any:
    """The kernel for up to 16 * slots atoms: a thread keeps `slots` atoms of each row in registers.

    `widen` turns the entries of streams into float32, `narrow` turns them back; `kind` says so in the kernel's name.
    """
    width = slots * LANES
    shelves = SAMPLES * width
    _read, _, _greedy = make_readers(widen)
    _pad = make_pad(narrow)

    @cuda_kernel(BLOCK)
    def c51_kernel(
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
    ):
        """Grid (P, B / 8); 16 threads own a sample, block (p, i) writes samples 8i to 8i + 7 of member p, every column.

        3 W floats read and W written a sample: 6.1 KB with 51 atoms.
        """
        mass, place_of = cuda.shared.array(shelves, float32), cuda.shared.array(shelves, float32)
        x0, x1 = cuda.local.array(slots, float32), cuda.local.array(slots, float32)
        x2, z = cuda.local.array(slots, float32), cuda.local.array(slots, float32)
        p, thread = uint32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        t, place, batch = thread % LANES, thread // LANES, int32(valued.shape[1])
        b = int32(cuda.blockIdx.y) * int32(SAMPLES) + place
        inside = b < batch
        b = min(b, batch - int32(1))  # all threads take part in the exchanges between them
        atoms, shelf = int32(support.shape[1]), uint64(place * width)
        start_d = (atoms + ALIGN - 1) // ALIGN * ALIGN
        start_m = start_d + (ACTIONS * atoms + ALIGN - 1) // ALIGN * ALIGN
        # unsigned indices: a signed one would be tested for a count from the end at every access
        wide, count, own_b = uint64(atoms), atoms - t, uint32(b)
        at, at_d, at_m = uint64(t), uint64(start_d + t), uint64(start_m + t)
        at_magnitudes = uint64(ACTIONS * atoms + t)
        present, following, target_row = online[p, own_b], online[p, uint32(batch + b)], valued[p, own_b]
        own, others, atom, gradient = online_offset[p], valued_offset[p], support[p], d_streams[p, own_b]
        for s in range(slots):
            z[s] = atom[uint64(min(t + s * LANES, atoms - 1))]

        # double DQN: the online network chooses, the target network evaluates
        after_d = _greedy(following, own, at, at_d, at, wide, count, z, x0, x1, x2)
        after_m = _greedy(following, own, at, at_m, at_magnitudes, wide, count, z, x0, x1, x2)
        _read(target_row, others, at, at_d, at + uint64(after_d) * wide, after_d, wide, count, x0)
        _read(target_row, others, at, at_m, at_magnitudes + uint64(after_m) * wide, after_m, wide, count, x1)
        r, g, alone = reward[p, own_b], discount[p, own_b], after_d == FLAT
        total, entropy = _project(x0, x1, alone, r, g, atom, atoms, t, shelf, mass, place_of, z, x2)

        # cross-entropy of the taken actions, and its gradient through the dueling sum
        taken_d, taken_m = int32(direction[p, own_b]), int32(magnitude[p, own_b])
        flat = taken_d == FLAT
        _read(present, own, at, at_d, at + uint64(taken_d) * wide, taken_d, wide, count, x0)
        _read(present, own, at, at_m, at_magnitudes + uint64(taken_m) * wide, taken_m, wide, count, x1)
        norm_d, norm_m = _log_normaliser(x0, z), _log_normaliser(x1, z)
        share = HALF / float32(batch) * weight[p, own_b]
        loss_d, loss_m = ZERO, ZERO
        for s in range(slots):
            m = x2[s]
            if s * LANES < count:
                log_d, log_m = x0[s] - norm_d, x1[s] - norm_m
                loss_d, loss_m = fma(-m, log_d, loss_d), fma(-m, log_m, loss_m)
                error_d = fma(_exp_cuda(log_d), total, -m)
                error_m = ZERO if flat else fma(_exp_cuda(log_m), total, -m)
                grad_d, grad_m = error_d * share, error_m * share
                if inside:
                    k = uint64(s * LANES)
                    gradient[at + k] = narrow(fma(error_d, share, grad_m))
                    for a in range(ACTIONS):
                        column = uint64(a) * wide + k
                        gradient[at_d + column] = narrow(fma(-THIRD, grad_d, grad_d if a == taken_d else ZERO))
                        gradient[at_m + column] = narrow(fma(-THIRD, grad_m, grad_m if a == taken_m else ZERO))
        if inside:
            _pad(gradient, atoms, start_d, start_m, t)
        loss_d, loss_m = _sum(loss_d), _sum(loss_m)
        if inside and t == 0:
            loss_m = ZERO if flat else loss_m
            sample[p, own_b] = HALF * (loss_d + loss_m)
            gain_d, gain_m = loss_d - entropy, loss_m - entropy
            gain_d, gain_m = ZERO if gain_d < ZERO else gain_d, ZERO if flat or gain_m < ZERO else gain_m
            priority[p, own_b] = gain_d + gain_m
            next_direction[p, own_b], next_magnitude[p, own_b] = after_d, after_m

    c51_kernel.py_func.__name__ = f"c51_{width}_atoms{kind}_kernel"
    return c51_kernel


SLOTS = 4, MOST_ATOMS // LANES
FEW, MANY = (make_kernel(slots) for slots in SLOTS)
_halves = for_cuda(halves)
FEW_BFLOAT16, MANY_BFLOAT16 = (make_kernel(slots, "_bfloat16", _halves.widen, _halves.narrow) for slots in SLOTS)
