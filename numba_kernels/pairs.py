"""Two float32 neighbours as the one int64 word they occupy: a thread that moves 8 bytes at a time keeps twice as much
in flight, and memory is what the elementwise kernels wait for."""

from __future__ import annotations

from numba import int32, int64, uint32

from .reinterpret import bits_of, float_of

HALF_WORD = int64(32)


def first(word):
    """The float32 at the lower address."""
    return float_of(int32(word & int64(0xFFFFFFFF)))


def second(word):
    """The float32 at the higher address."""
    return float_of(int32(word >> HALF_WORD))


def joined(low, high):
    """The word of two float32 neighbours."""
    return (int64(bits_of(high)) << HALF_WORD) | int64(uint32(bits_of(low)))
