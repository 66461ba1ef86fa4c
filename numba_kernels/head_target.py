"""Scalar arithmetic of a bootstrapped value head: its own double-DQN target, and the Huber loss to it."""

from __future__ import annotations

from numba import float32, uint32

from .fma import fma

ONE, HALF = float32(1.0), float32(0.5)
ACTIONS, FLAT = uint32(3), uint32(1)


def greedy(values, first):
    """Place of the greatest of the three values from `first` on; the first of equals."""
    best = uint32(first)
    for k in range(uint32(first) + uint32(1), uint32(first) + ACTIONS):
        if values[k] > values[best]:
            best = uint32(k)
    return best


def next_value(chosen, valued):
    """What `valued` says of the actions that `chosen` prefers: the mean of the branches, the direction's alone where it
    is flat. Six values each, 3 directions then 3 magnitudes."""
    direction = greedy(chosen, uint32(0))
    of_direction = valued[direction]
    if direction == FLAT:
        return of_direction
    return HALF * (of_direction + valued[greedy(chosen, ACTIONS)])


def clipped(error):
    """Slope of the Huber loss that turns linear at 1. A NaN stays NaN."""
    return ONE if error > ONE else (-ONE if error < -ONE else error)


def lever(error):
    """What times the slope is the Huber loss: error - clip(error) / 2."""
    return fma(-HALF, clipped(error), error)
