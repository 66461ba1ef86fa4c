"""Scalar arithmetic of the SplitMix64 generator (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
generators").

Written as a function of a counter, so that the n-th number needs no state. Every constant is uint64: mixed integer
types would silently widen.
"""

from __future__ import annotations

from numba import float32, uint64

GAMMA = uint64(0x9E3779B97F4A7C15)
FIRST = uint64(0xBF58476D1CE4E5B9)
SECOND = uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31, SHIFT_40 = uint64(30), uint64(27), uint64(31), uint64(40)
ONE = uint64(1)
UNIT_24 = float32(2.0**-24)


def mix(z):
    """The generator's output function: a bijection of 64-bit words."""
    z = (z ^ (z >> SHIFT_30)) * FIRST
    z = (z ^ (z >> SHIFT_27)) * SECOND
    return z ^ (z >> SHIFT_31)


def output(seed, n):
    """The n-th word (from 0) of the generator seeded with `seed`."""
    return mix(seed + (n + ONE) * GAMMA)


def stream_seed(key, purpose, step):
    """Seed of the stream that (key, purpose, step) owns."""
    return mix(mix(mix(key + GAMMA) ^ purpose) + GAMMA ^ step) + GAMMA


def unit_interval(word):
    """float32 in [0, 1) from the upper 24 bits of a word."""
    return float32(word >> SHIFT_40) * UNIT_24
