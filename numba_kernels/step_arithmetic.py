"""Scalar arithmetic of one update: schedules, the budget of C51, clip, and what Adam is given."""

from __future__ import annotations

import math

from numba import float32, uint32

from .fma import fma

ZERO, ONE, NAN = float32(0.0), float32(1.0), float32(math.nan)


def annealed(start, end, duration, updates):
    """start + (end - start) x updates / duration, and `end` to the bit from `duration` on."""
    progress = updates / duration
    return fma(end - start, progress, start) if progress < ONE else end


def opened(warmup, ramp, updates):
    """clip((updates - warmup) / ramp, 0, 1)."""
    share = (updates - warmup) / ramp
    return ZERO if share < ZERO else (ONE if share > ONE else share)


def finite(x):
    return x - x == ZERO


def whole(norms):
    """Norm of a row from the norms of its slices, summed in their order."""
    total = ZERO
    for i in range(norms.size):
        total = fma(norms[i], norms[i], total)
    return float32(math.sqrt(total))


def within(norm, limit):
    """The factor that keeps a norm within a positive limit: 1 below it."""
    return limit / norm if norm > limit else ONE


def budget_scale(norm, budget, applied):
    """min(1, budget x applied / norm), 1 while nothing has been applied; NaN for a norm that is not finite."""
    limit = budget * applied
    scale = within(norm, limit) if limit > ZERO else ONE
    return scale if finite(norm) else NAN


def moved_average(average, rate, x):
    """Exponential mean, begun by the first finite `x`; others leave it."""
    if not finite(x):
        return average
    return fma(rate, x - average, average) if average > ZERO else x


def observe_norm(signals, counters, slots, columns, norm, loss):
    """Moves the mean of applied norms and notes a broken member; 1 while it may learn, else 0."""
    ema, frozen = uint32(slots[0]), uint32(columns[2])
    signals[ema] = moved_average(signals[ema], signals[uint32(slots[1])], norm)
    if counters[frozen] < 0 and not (finite(norm) and finite(loss)):
        counters[frozen] = counters[uint32(columns[0])]
    return 1 if counters[frozen] < 0 else 0


def advance_powers(signals, counters, slots, columns):
    """One more Adam step: the powers of both betas, and the count."""
    for k in range(2):
        power, beta = uint32(slots[8 + k]), uint32(slots[4 + k])
        signals[power] = signals[power] * signals[beta]
    counters[uint32(columns[1])] += 1


def write_coefficients(signals, slots, factor, out):
    """What Adam takes, in the order of `adam_step`."""
    rate, beta1, beta2 = signals[uint32(slots[3])], signals[uint32(slots[4])], signals[uint32(slots[5])]
    out[uint32(0)] = factor
    out[uint32(1)] = rate / (ONE - signals[uint32(slots[8])])
    out[uint32(2)] = beta1
    out[uint32(3)] = beta2
    out[uint32(4)] = ONE / (ONE - signals[uint32(slots[9])])
    out[uint32(5)] = signals[uint32(slots[6])]
    out[uint32(6)] = signals[uint32(slots[7])]
