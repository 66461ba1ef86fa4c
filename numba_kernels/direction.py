"""Scalar arithmetic of the distance between two directions (G12): u = x/|x|, v = y/|y|, d = u - v."""

from __future__ import annotations

import math

from numba import float32

from .fma import fma

ZERO, ONE, TWO = float32(0.0), float32(1.0), float32(2.0)


def inverse_norm(square):
    """1/sqrt(square); 0 for a zero vector, which has no direction."""
    return ZERO if square == ZERO else ONE / float32(math.sqrt(square))


def difference(x, x_inverse, y, y_inverse):
    """One entry of d = u - v."""
    return fma(x, x_inverse, -(y * y_inverse))


def gradient(x, x_inverse, y, y_inverse, overlap, weight):
    """One entry of weight * grad_x |d|^2 = weight * 2/|x| * (d - u (u.d)); `overlap` is u.d.

    Exactly 0 where the weight is 0 or the target has no direction: then u - u (u.u) is 0 but for rounding.
    """
    if weight == ZERO or y_inverse == ZERO:
        return ZERO
    across = fma(-(x * x_inverse), overlap, difference(x, x_inverse, y, y_inverse))
    return weight * (TWO * x_inverse) * across
