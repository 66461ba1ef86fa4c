"""exp and log of float32 from sums and products alone, so that every backend gives the same bits.

The polynomials are those of Cephes (Moshier 1984-2000, expf and logf), good to about 1 ulp; both functions vectorise on
a CPU, which a call into a mathematics library does not.
"""

from __future__ import annotations

from numba import float32, int32

from .fma import fma
from .reinterpret import bits_of, float_of

ZERO, ONE, HALF = float32(0.0), float32(1.0), float32(0.5)
LOG2_E = float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = float32(0.693359375), float32(-2.12194440e-4)
ROUNDER = float32(12582912.0)  # 1.5 * 2^23: adding it leaves the nearest integer in the low bits
UNDERFLOW = float32(-87.0)  # exp is below 2^-125 there
ROOT_HALF = float32(0.707106781186547524)
EXPONENT, MANTISSA = int32(23), int32(0x007FFFFF)
ONE_BITS, HALF_BITS, HALF_EXPONENT = int32(0x3F800000), int32(0x3F000000), int32(126)
E_0, E_1, E_2 = float32(1.9875691500e-4), float32(1.3981999507e-3), float32(8.3334519073e-3)
E_3, E_4, E_5 = float32(4.1665795894e-2), float32(1.6666665459e-1), float32(5.0000001201e-1)
L_0, L_1, L_2 = float32(7.0376836292e-2), float32(-1.1514610310e-1), float32(1.1676998740e-1)
L_3, L_4, L_5 = float32(-1.2420140846e-1), float32(1.4249322787e-1), float32(-1.6668057665e-1)
L_6, L_7, L_8 = float32(2.0000714765e-1), float32(-2.4999993993e-1), float32(3.3333331174e-1)


def exp_below(x):
    """exp(x) for x <= 0; exactly 0 below -87, and 1 at 0. NaN stays NaN."""
    shifted = fma(x, LOG2_E, ROUNDER)
    count = shifted - ROUNDER
    r = fma(count, -LN2_LOW, fma(count, -LN2_HIGH, x))
    p = fma(fma(fma(fma(fma(E_0, r, E_1), r, E_2), r, E_3), r, E_4), r, E_5)
    value = (fma(p, r * r, r) + ONE) * float_of((bits_of(shifted) << EXPONENT) + ONE_BITS)
    return ZERO if x < UNDERFLOW else value


def log_of(x):
    """log(x) for normal x > 0. NaN and infinity give NaN."""
    bits = bits_of(x)
    m = float_of((bits & MANTISSA) | HALF_BITS)
    low = m < ROOT_HALF
    e = float32((bits >> EXPONENT) - HALF_EXPONENT) - (ONE if low else ZERO)
    m = m + m - ONE if low else m - ONE
    z = m * m
    p = fma(fma(fma(fma(L_0, m, L_1), m, L_2), m, L_3), m, L_4)
    p = fma(fma(fma(fma(p, m, L_5), m, L_6), m, L_7), m, L_8)
    y = fma(e, LN2_LOW, p * m * z)
    y = fma(z, -HALF, y)
    return fma(e, LN2_HIGH, m + y) + (x - x)
