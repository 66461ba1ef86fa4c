"""The CPU twin of the categorical loss of two branches: the same sums in the same order, 16 lanes wide."""

from __future__ import annotations

import numpy as np
from numba import float32, int64

from . import elementary
from .c51_cuda import ACTIONS, ALIGN, FLAT, HALF, LANES, LOWEST, ONE, THIRD, TINY, ZERO
from .cpu_target import cpu_function, cpu_kernel, for_cpu
from .fma import cpu_fma

# rows of the scratch; those that are summed are 0 beyond the atoms, the logits are -inf there
BASE, LOGITS, MASS, PLACE, BELOW, ABOVE, MOVED, SUPPORT, ROWS = range(9)

CHUNK = 4 * LANES  # four rows of lanes a pass: a quarter of the accumulator traffic

_on_cpu = for_cpu(elementary)
_exp_cpu, _log_cpu = _on_cpu.exp_below, _on_cpu.log_of


@cpu_function
def _tree_sum(x):
    """The halving tree over 16 lanes."""
    a0, a1, a2, a3 = x[0] + x[8], x[1] + x[9], x[2] + x[10], x[3] + x[11]
    a4, a5, a6, a7 = x[4] + x[12], x[5] + x[13], x[6] + x[14], x[7] + x[15]
    b0, b1, b2, b3 = a0 + a4, a1 + a5, a2 + a6, a3 + a7
    return (b0 + b2) + (b1 + b3)


@cpu_function
def _scan_max(x, lanes):
    for t in range(LANES):
        lanes[t] = LOWEST
    for c in range(0, x.size, CHUNK):
        for t in range(LANES):
            left = x[c + t] if x[c + t] > x[c + LANES + t] else x[c + LANES + t]
            right = x[c + 2 * LANES + t] if x[c + 2 * LANES + t] > x[c + 3 * LANES + t] else x[c + 3 * LANES + t]
            both = left if left > right else right
            lanes[t] = both if both > lanes[t] else lanes[t]
    for t in range(8):
        lanes[t] = lanes[t] if lanes[t] > lanes[t + 8] else lanes[t + 8]
    for t in range(4):
        lanes[t] = lanes[t] if lanes[t] > lanes[t + 4] else lanes[t + 4]
    left = lanes[0] if lanes[0] > lanes[1] else lanes[1]
    right = lanes[2] if lanes[2] > lanes[3] else lanes[3]
    return left if left > right else right


@cpu_function
def _scan_sum(x, lanes):
    for t in range(LANES):
        lanes[t] = ZERO
    for c in range(0, x.size, CHUNK):
        for t in range(LANES):
            lanes[t] = lanes[t] + x[c + t] + x[c + LANES + t] + x[c + 2 * LANES + t] + x[c + 3 * LANES + t]
    return _tree_sum(lanes)


@cpu_function
def _scan_dot(x, y, lanes):
    for t in range(LANES):
        lanes[t] = ZERO
    for c in range(0, x.size, CHUNK):
        for t in range(c, c + LANES):
            total = cpu_fma(x[LANES + t], y[LANES + t], cpu_fma(x[t], y[t], lanes[t - c]))
            total = cpu_fma(x[2 * LANES + t], y[2 * LANES + t], total)
            lanes[t - c] = cpu_fma(x[3 * LANES + t], y[3 * LANES + t], total)
    return _tree_sum(lanes)


@cpu_function
def _base_cpu(row, start, atoms, out):
    """Value minus the mean advantage: what all actions of a branch share."""
    value, first, second = row[:atoms], row[start : start + atoms], row[start + atoms : start + 2 * atoms]
    third = row[start + 2 * atoms : start + 3 * atoms]
    for k in range(atoms):
        out[k] = cpu_fma(-THIRD, first[k] + second[k] + third[k], value[k])


@cpu_function
def _logits_cpu(row, offset, start, action, atoms, work):
    base, logits = work[BASE], work[LOGITS]
    advantage, shift = row[start + action * atoms : start + (action + 1) * atoms], offset[action]
    for k in range(atoms):
        logits[k] = base[k] + advantage[k] + shift[k]


@cpu_function
def _weigh_cpu(work, lanes, out):
    """exp(logit - highest logit) over `out`; returns the highest logit and the sum."""
    logits, top = work[LOGITS], _scan_max(work[LOGITS], lanes)
    for k in range(logits.size):
        out[k] = _exp_cpu(logits[k] - top)
    return top, _scan_sum(out, lanes)


@cpu_function
def _greedy_cpu(row, offset, start, atoms, work, lanes):
    _base_cpu(row, start, atoms, work[BASE])
    best, best_value = 0, ZERO
    for action in range(ACTIONS):
        _logits_cpu(row, offset, start, action, atoms, work)
        _, total = _weigh_cpu(work, lanes, work[MASS])
        value = _scan_dot(work[MASS], work[SUPPORT], lanes) / total
        if action == 0 or value > best_value:
            best, best_value = action, value
    return best


@cpu_function
def _chosen_cpu(row, offset, start, action, atoms, work, lanes, out):
    _base_cpu(row, start, atoms, work[BASE])
    _logits_cpu(row, offset, start, action, atoms, work)
    return _weigh_cpu(work, lanes, out)


@cpu_function
def _target_cpu(row, offset, after_d, after_m, start_d, start_m, atoms, r, g, work, lanes):
    """Writes the projected target of one sample to row MOVED."""
    mass, at, below, above = work[MASS], work[PLACE], work[BELOW], work[ABOVE]
    support, moved, last = work[SUPPORT], work[MOVED], float32(atoms - 1)
    _, sum_d = _chosen_cpu(row, offset[:ACTIONS], start_d, after_d, atoms, work, lanes, mass)
    _, sum_m = _chosen_cpu(row, offset[ACTIONS:], start_m, after_m, atoms, work, lanes, at)
    alone = after_d == FLAT
    share_d = ONE / sum_d if alone else HALF / sum_d
    share_m = ZERO if alone else HALF / sum_m
    low, per_spacing = support[0], last / (support[atoms - 1] - support[0])
    for j in range(atoms):
        mass[j] = cpu_fma(ZERO if alone else at[j], share_m, mass[j] * share_d)
        at[j] = (cpu_fma(g, support[j], r) - low) * per_spacing
        below[j] = mass[j] if at[j] <= ZERO else ZERO
        above[j] = mass[j] if at[j] >= last else ZERO
    broken = (r - r) + (g - g) + (share_d - share_d) + (share_m - share_m) + (per_spacing - per_spacing)
    for i in range(atoms):
        moved[i] = broken
    moved[0] += _scan_sum(below, lanes)
    moved[atoms - 1] += _scan_sum(above, lanes)
    for j in range(atoms):
        if at[j] > ZERO and at[j] < last:
            near = int64(at[j])
            moved[near] = cpu_fma(mass[j], ONE - (at[j] - float32(near)), moved[near])
            moved[near + 1] = cpu_fma(mass[j], max(ONE - (float32(near + 1) - at[j]), ZERO), moved[near + 1])


@cpu_function
def _entropy_cpu(moved, scratch, lanes):
    """(sum of m, -sum of m log m)."""
    for i in range(moved.size):
        scratch[i] = -_log_cpu(moved[i] if moved[i] > TINY else TINY)
    entropy = _scan_dot(moved, scratch, lanes)
    return _scan_sum(moved, lanes), entropy


@cpu_function
def _loss_cpu(row, offset, start, taken, atoms, total, work, lanes, error):
    """Cross-entropy of the taken action; its gradient at that action's logits over `error`."""
    top, summed = _chosen_cpu(row, offset, start, taken, atoms, work, lanes, work[MASS])
    norm, logits, moved = top + _log_cpu(summed), work[LOGITS], work[MOVED]
    surprise = work[MASS]
    for i in range(atoms):
        log_p = logits[i] - norm
        surprise[i] = -log_p
        error[i] = cpu_fma(_exp_cpu(log_p), total, -moved[i])
    return _scan_dot(moved, surprise, lanes)


@cpu_function
def _spread_cpu(error, start, taken, atoms, share, row):
    """Gradient of the dueling sum: the taken action minus a third, every other action minus a third."""
    for a in range(ACTIONS):
        own, out = ONE if a == taken else ZERO, row[start + a * atoms : start + (a + 1) * atoms]
        for i in range(atoms):
            grad = error[i] * share
            out[i] = cpu_fma(-THIRD, grad, grad * own)


@cpu_kernel
def c51_cpu(
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
    atoms, batch = support.shape[1], valued.shape[1]
    start_d = (atoms + ALIGN - 1) // ALIGN * ALIGN
    start_m = start_d + (ACTIONS * atoms + ALIGN - 1) // ALIGN * ALIGN
    work = np.zeros((ROWS, (atoms + CHUNK - 1) // CHUNK * CHUNK), np.float32)
    lanes, logits = np.empty(LANES, np.float32), work[LOGITS]
    for k in range(logits.size):
        logits[k] = LOWEST
    for p in range(valued.shape[0]):
        for k in range(atoms):
            work[SUPPORT, k] = support[p, k]
        offset_d, offset_m = online_offset[p, :ACTIONS], online_offset[p, ACTIONS:]
        for b in range(batch):
            after = online[p, batch + b]
            after_d = _greedy_cpu(after, offset_d, start_d, atoms, work, lanes)
            after_m = _greedy_cpu(after, offset_m, start_m, atoms, work, lanes)
            valued_at, r, g = valued[p, b], reward[p, b], discount[p, b]
            _target_cpu(valued_at, valued_offset[p], after_d, after_m, start_d, start_m, atoms, r, g, work, lanes)
            total, entropy = _entropy_cpu(work[MOVED], work[MASS], lanes)
            share, row, out = HALF / float32(batch) * weight[p, b], online[p, b], d_streams[p, b]
            taken_d, taken_m = direction[p, b], magnitude[p, b]
            loss_d = _loss_cpu(row, offset_d, start_d, taken_d, atoms, total, work, lanes, work[BELOW])
            loss_m = _loss_cpu(row, offset_m, start_m, taken_m, atoms, total, work, lanes, work[ABOVE])
            flat = taken_d == FLAT
            error_d, error_m = work[BELOW], work[ABOVE]
            if flat:
                loss_m = ZERO
                for i in range(atoms):
                    error_m[i] = ZERO
            for i in range(out.size):
                out[i] = ZERO
            for i in range(atoms):
                out[i] = cpu_fma(error_d[i], share, error_m[i] * share)
            _spread_cpu(work[BELOW], start_d, taken_d, atoms, share, out)
            _spread_cpu(work[ABOVE], start_m, taken_m, atoms, share, out)
            sample[p, b] = HALF * (loss_d + loss_m)
            gain_d, gain_m = loss_d - entropy, loss_m - entropy
            gain_d, gain_m = ZERO if gain_d < ZERO else gain_d, ZERO if flat or gain_m < ZERO else gain_m
            priority[p, b] = gain_d + gain_m
            next_direction[p, b] = after_d
            next_magnitude[p, b] = after_m
