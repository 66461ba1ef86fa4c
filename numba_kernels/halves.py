"""bfloat16 values: alone as a uint16, and two neighbours as the one int32 word they occupy (see `pairs`).

A bfloat16 is the upper half of a float32. Arithmetic is float32 throughout; storing rounds to nearest, ties to even.
"""

from __future__ import annotations

from numba import int32, uint16, uint32

from .reinterpret import bits_of, float_of

HALF_WORD = uint32(16)
UPPER, NAN = uint32(0xFFFF0000), uint32(0x7FC0)
JUST_BELOW_HALF, ODD = uint32(0x7FFF), uint32(1)


def widen(half):
    """The float32 of a bfloat16."""
    return float_of(int32(uint32(half) << HALF_WORD))


def rounded(x):
    """The bfloat16 nearest to a float32, as a uint32."""
    bits = uint32(bits_of(x))
    up = uint32(bits + JUST_BELOW_HALF + (uint32(bits >> HALF_WORD) & ODD))
    return uint32(up >> HALF_WORD) if x == x else NAN


def narrow(x):
    """The bfloat16 nearest to a float32."""
    return uint16(rounded(x))


def first(word):
    """The value at the lower address."""
    return float_of(int32(uint32(uint32(word) << HALF_WORD)))


def second(word):
    """The value at the higher address."""
    return float_of(int32(uint32(word) & UPPER))


def joined(low, high):
    """The word of two neighbours."""
    return int32(uint32(uint32(rounded(high)) << HALF_WORD) | rounded(low))
