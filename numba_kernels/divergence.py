"""Scalar arithmetic of the Jensen-Shannon divergence of two softmax distributions (G10), in nats.

With x = (p - q)/(p + q) per outcome, JSD = sum (p + q)/4 h(x), h(x) = (1+x) log(1+x) + (1-x) log(1-x). Every term is
nonnegative, so nearly equal distributions lose no digits to cancellation between terms.
"""

from __future__ import annotations

import math

from numba import float32

ZERO, ONE, HALF, QUARTER = float32(0.0), float32(1.0), float32(0.5), float32(0.25)
SERIES = float32(0.3)  # below it the power series of h is exact to float32
H_4, H_6, H_8, H_10, H_12 = float32(1 / 6), float32(1 / 15), float32(1 / 28), float32(1 / 45), float32(1 / 66)


def contrast(p, q):
    """x = (p - q)/(p + q), in [-1, 1]; 0 where both probabilities are 0."""
    return ZERO if p + q == ZERO else (p - q) / (p + q)


def log_ratio(x):
    """log(1 + x) = log(p / m) with m = (p + q)/2; 0 for p = 0, where it is only ever multiplied by p."""
    return ZERO if x <= -ONE else float32(math.log1p(x))


def binary_term(x):
    """h(x)."""
    if abs(x) < SERIES:
        y = x * x
        return y * (ONE + y * (H_4 + y * (H_6 + y * (H_8 + y * (H_10 + y * H_12)))))
    return (ONE + x) * log_ratio(x) + (ONE - x) * log_ratio(-x)


def softmax(values, probabilities, p, b, temperature):
    """Writes softmax(values[p, b] / temperature) into probabilities[p, b]."""
    count = values.shape[2]
    highest = values[p, b, 0]
    for i in range(count):
        if values[p, b, i] > highest:
            highest = values[p, b, i]
    total = ZERO
    for i in range(count):
        weight = float32(math.exp((values[p, b, i] - highest) / temperature))
        probabilities[p, b, i] = weight
        total += weight
    for i in range(count):
        probabilities[p, b, i] = probabilities[p, b, i] / total


def clear(grad_now, grad_next, p, b):
    """Zeroes the gradients of one sample."""
    for i in range(grad_now.shape[2]):
        grad_now[p, b, i] = ZERO
        grad_next[p, b, i] = ZERO


def jensen_shannon(grad_now, grad_next, p, b, scale, weight):
    """weight * JSD of the probabilities that stand in grad_now[p, b] and grad_next[p, b]; replaces them by the
    gradients with respect to the values they came from. `scale` is 1/temperature.

    d JSD / d p_i = log(p_i / m_i) / 2 + constant, pulled back through the softmax.
    """
    count = grad_now.shape[2]
    total, mean_now, mean_next = ZERO, ZERO, ZERO
    for i in range(count):
        now, after = grad_now[p, b, i], grad_next[p, b, i]
        x = contrast(now, after)
        total += (now + after) * binary_term(x)
        mean_now += now * log_ratio(x)
        mean_next += after * log_ratio(-x)
    factor = HALF * scale * weight
    for i in range(count):
        now, after = grad_now[p, b, i], grad_next[p, b, i]
        x = contrast(now, after)
        grad_now[p, b, i] = factor * now * (log_ratio(x) - mean_now)
        grad_next[p, b, i] = factor * after * (log_ratio(-x) - mean_next)
    return QUARTER * total * weight
