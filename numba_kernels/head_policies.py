"""Scalar arithmetic of what heads disagree about: the Jensen-Shannon divergence of their softmax policies."""

from __future__ import annotations

from numba import float32

from .elementary import exp_below, log_of
from .fma import fma

ZERO = float32(0.0)
TINY = float32(1e-36)  # probabilities below add less than 1e-34 to a divergence


def largest(values, first):
    """Of the three values from `first` on; NaN where the first is NaN."""
    found = values[first]
    for k in range(first + 1, first + 3):
        found = values[k] if values[k] > found else found
    return found


def weight_sum(values, first, top, scale):
    """Sum of exp((value - top) x scale) over the three."""
    total = ZERO
    for k in range(first, first + 3):
        total += exp_below((values[k] - top) * scale)
    return total


def mean_policy(values, k, first, scale):
    """Mean over the heads, in order, of the probability of place `k`; `values` [heads, 6]."""
    total = ZERO
    for head in range(values.shape[0]):
        top = largest(values[head], first)
        total += exp_below((values[head, k] - top) * scale) / weight_sum(values[head], first, top, scale)
    return total / float32(values.shape[0])


def divergence(values, first, scale):
    """mean over heads of KL(p_head || mean of the p), nats, of the branch that begins at `first`."""
    total = ZERO
    for k in range(first, first + 3):
        mean = mean_policy(values, k, first, scale)
        if mean < TINY:
            continue
        middle = log_of(mean)
        for head in range(values.shape[0]):
            top = largest(values[head], first)
            partition, shifted = weight_sum(values[head], first, top, scale), (values[head, k] - top) * scale
            p = exp_below(shifted) / partition
            if p > ZERO or p != p:
                total = fma(p, shifted - log_of(partition) - middle, total)
    return total / float32(values.shape[0])
