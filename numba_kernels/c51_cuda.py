"""The CUDA kernel of the categorical loss of two branches; `c51` says what it computes."""

from __future__ import annotations

import numpy as np
from numba import float32, int32

from . import elementary
from .cuda_target import cuda, cuda_function, cuda_kernel, fma, for_cuda

LANES = 16  # threads a sample
SAMPLES = 8  # samples a block
BLOCK = LANES * SAMPLES
MOST_ATOMS = 128
ALIGN = 32  # columns: each head's outputs begin at a multiple
ACTIONS, FLAT = 3, 1
ZERO, HALF, ONE, THIRD = float32(0.0), float32(0.5), float32(1.0), float32(1.0 / 3.0)
LOWEST, TINY = float32(-np.inf), float32(2.0**-126)
AWAY = float32(-2.0)  # a place on the grid that no atom is near to
FLATTEST = float32(0.05)  # discount below which every atom is looked at

_on_cuda = for_cuda(elementary)
_exp_cuda, _log_cuda = _on_cuda.exp_below, _on_cuda.log_of


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
def _base(streams, p, row, start, k, atoms):
    """Value minus the mean advantage of atom k: what all actions of a branch share."""
    a = start + k
    total = streams[p, row, a] + streams[p, row, a + atoms] + streams[p, row, a + 2 * atoms]
    return fma(-THIRD, total, streams[p, row, k])


@cuda_function
def _logit(streams, offset, p, row, start, action, k, atoms, branch):
    own = _base(streams, p, row, start, k, atoms) + streams[p, row, start + action * atoms + k]
    return own + offset[p, branch + action, k]


@cuda_function
def _greedy(streams, offset, p, row, start, branch, support, atoms, t):
    """The branch's action with the largest expected return; the first of equals."""
    h0, h1, h2 = LOWEST, LOWEST, LOWEST
    for k in range(t, atoms, LANES):
        base, a = _base(streams, p, row, start, k, atoms), start + k
        h0 = max(h0, base + streams[p, row, a] + offset[p, branch, k])
        h1 = max(h1, base + streams[p, row, a + atoms] + offset[p, branch + 1, k])
        h2 = max(h2, base + streams[p, row, a + 2 * atoms] + offset[p, branch + 2, k])
    h0, h1, h2 = _highest(h0), _highest(h1), _highest(h2)
    s0, s1, s2, d0, d1, d2 = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    for k in range(t, atoms, LANES):
        base, a, z = _base(streams, p, row, start, k, atoms), start + k, support[p, k]
        e0 = _exp_cuda(base + streams[p, row, a] + offset[p, branch, k] - h0)
        e1 = _exp_cuda(base + streams[p, row, a + atoms] + offset[p, branch + 1, k] - h1)
        e2 = _exp_cuda(base + streams[p, row, a + 2 * atoms] + offset[p, branch + 2, k] - h2)
        s0, s1, s2 = s0 + e0, s1 + e1, s2 + e2
        d0, d1, d2 = fma(e0, z, d0), fma(e1, z, d1), fma(e2, z, d2)
    q0, q1, q2 = _sum(d0) / _sum(s0), _sum(d1) / _sum(s1), _sum(d2) / _sum(s2)
    best = int32(1) if q1 > q0 else int32(0)
    return int32(2) if q2 > max(q0, q1) else best


@cuda_function
def _weigh(streams, offset, p, row, start, action, atoms, branch, t, out, place):
    """Writes exp(logit - highest logit) of the action's own atoms to `out[place]`; returns their sum."""
    top = LOWEST
    for k in range(t, atoms, LANES):
        top = max(top, _logit(streams, offset, p, row, start, action, k, atoms, branch))
    top, total = _highest(top), ZERO
    for k in range(t, atoms, LANES):
        e = _exp_cuda(_logit(streams, offset, p, row, start, action, k, atoms, branch) - top)
        out[place, k] = e
        total += e
    return _sum(total)


@cuda_function
def _log_normaliser(streams, offset, p, row, start, action, atoms, branch, t):
    """log sum exp of the action's logits."""
    top = LOWEST
    for k in range(t, atoms, LANES):
        top = max(top, _logit(streams, offset, p, row, start, action, k, atoms, branch))
    top, total = _highest(top), ZERO
    for k in range(t, atoms, LANES):
        total += _exp_cuda(_logit(streams, offset, p, row, start, action, k, atoms, branch) - top)
    return top + _log_cuda(_sum(total))


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
    """Grid (P, B / 8); 16 threads own a sample, and block (p, i) writes samples 8i to 8i + 7 of member p, every column.

    3 W floats read and W written a sample: 6.1 KB with 51 atoms.
    """
    mass = cuda.shared.array((SAMPLES, MOST_ATOMS), float32)
    place_of = cuda.shared.array((SAMPLES, MOST_ATOMS), float32)
    moved = cuda.shared.array((SAMPLES, MOST_ATOMS), float32)
    p, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
    t, place, batch, atoms = thread % LANES, thread // LANES, int32(valued.shape[1]), int32(support.shape[1])
    b = int32(cuda.blockIdx.y) * int32(SAMPLES) + place
    inside = b < batch
    b = min(b, batch - int32(1))  # all threads take part in the exchanges between them
    start_d = (atoms + ALIGN - 1) // ALIGN * ALIGN
    wide = (ACTIONS * atoms + ALIGN - 1) // ALIGN * ALIGN
    start_m = start_d + wide

    # double DQN: the online network chooses, the target network evaluates
    after_d = _greedy(online, online_offset, p, batch + b, start_d, 0, support, atoms, t)
    after_m = _greedy(online, online_offset, p, batch + b, start_m, ACTIONS, support, atoms, t)
    sum_d = _weigh(valued, valued_offset, p, b, start_d, after_d, atoms, 0, t, mass, place)
    sum_m = _weigh(valued, valued_offset, p, b, start_m, after_m, atoms, ACTIONS, t, place_of, place)
    alone = after_d == FLAT
    share_d = ONE / sum_d if alone else HALF / sum_d
    share_m = ZERO if alone else HALF / sum_m

    # where each atom's mass goes on the grid; what leaves it is summed at the ends
    low, last = support[p, 0], float32(atoms - 1)
    per_spacing = last / (support[p, atoms - 1] - low)
    r, g = reward[p, b], discount[p, b]
    below, above = ZERO, ZERO
    for j in range(t, atoms, LANES):
        own = fma(ZERO if alone else place_of[place, j], share_m, mass[place, j] * share_d)
        at = (fma(g, support[p, j], r) - low) * per_spacing
        below += own if at <= ZERO else ZERO
        above += own if at >= last else ZERO
        mass[place, j] = own
        place_of[place, j] = at if at > ZERO and at < last else AWAY
    below, above = _sum(below), _sum(above)
    broken = (r - r) + (g - g) + (share_d - share_d) + (share_m - share_m)  # 0, or NaN where one is not finite
    broken += per_spacing - per_spacing
    cuda.syncthreads()
    first = (fma(g, low, r) - low) * per_spacing
    total_m, entropy = ZERO, ZERO
    for i in range(t, atoms, LANES):
        begin, stop = int32(0), atoms
        if g > FLATTEST:
            begin = int32(min(max((float32(i) - ONE - first) / g - ONE, ZERO), last))
            stop = int32(min(max((float32(i) + ONE - first) / g + ONE, ZERO), last)) + int32(1)
        m = broken + (below if i == 0 else (above if i == atoms - 1 else ZERO))
        for j in range(begin, stop):
            m = fma(mass[place, j], max(ONE - abs(place_of[place, j] - float32(i)), ZERO), m)
        moved[place, i] = m
        total_m += m
        entropy = fma(-m, _log_cuda(max(m, TINY)), entropy)
    total_m, entropy = _sum(total_m), _sum(entropy)

    # cross-entropy of the taken actions, and its gradient through the dueling sum
    taken_d, taken_m = int32(direction[p, b]), int32(magnitude[p, b])
    flat = taken_d == FLAT
    norm_d = _log_normaliser(online, online_offset, p, b, start_d, taken_d, atoms, 0, t)
    norm_m = _log_normaliser(online, online_offset, p, b, start_m, taken_m, atoms, ACTIONS, t)
    share = HALF / float32(batch) * weight[p, b]
    loss_d, loss_m = ZERO, ZERO
    for i in range(t, wide, LANES):
        if i < atoms:
            m = moved[place, i]
            log_d = _logit(online, online_offset, p, b, start_d, taken_d, i, atoms, 0) - norm_d
            log_m = _logit(online, online_offset, p, b, start_m, taken_m, i, atoms, ACTIONS) - norm_m
            loss_d, loss_m = fma(-m, log_d, loss_d), fma(-m, log_m, loss_m)
            error_d = fma(_exp_cuda(log_d), total_m, -m)
            error_m = ZERO if flat else fma(_exp_cuda(log_m), total_m, -m)
            grad_d, grad_m = error_d * share, error_m * share
            if inside:
                d_streams[p, b, i] = fma(error_d, share, grad_m)
                for a in range(ACTIONS):
                    column = a * atoms + i
                    d_streams[p, b, start_d + column] = fma(-THIRD, grad_d, grad_d if a == taken_d else ZERO)
                    d_streams[p, b, start_m + column] = fma(-THIRD, grad_m, grad_m if a == taken_m else ZERO)
        elif inside and i < start_d:
            d_streams[p, b, i] = ZERO
        if inside and i >= ACTIONS * atoms:
            d_streams[p, b, start_d + i] = ZERO
            d_streams[p, b, start_m + i] = ZERO
    loss_d, loss_m = _sum(loss_d), _sum(loss_m)
    if inside and t == 0:
        loss_m = ZERO if flat else loss_m
        sample[p, b] = HALF * (loss_d + loss_m)
        gain_d, gain_m = loss_d - entropy, loss_m - entropy
        gain_d, gain_m = ZERO if gain_d < ZERO else gain_d, ZERO if flat or gain_m < ZERO else gain_m
        priority[p, b] = gain_d + gain_m
        next_direction[p, b] = after_d
        next_magnitude[p, b] = after_m
