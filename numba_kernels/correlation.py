"""Scalar arithmetic of the squared cross-correlation |C|^2, C = X'Y/(B-1) with standardised columns (G6)."""

from __future__ import annotations

import math

from numba import float32

from .fma import fma

ZERO, ONE, TWO = float32(0.0), float32(1.0), float32(2.0)
CONSTANT_VARIANCE = float32(1e-12)  # a column with a standard deviation of at most 1e-6 counts as constant


def inverse_deviation(square_sum, count):
    """1/sd with the sample standard deviation (ddof 1); 0 for a constant column, which thereby becomes all zeros."""
    variance = square_sum / float32(count - 1)
    return ZERO if variance <= CONSTANT_VARIANCE else ONE / float32(math.sqrt(variance))


def standardise(value, mean, inverse):
    """(value - mean) / sd; exactly 0 in a constant column."""
    return ZERO if inverse == ZERO else (value - mean) * inverse


def gradient(projected, value, squares, inverse, count):
    """d|C|^2 / dx_bj = 2/((B-1) sd_j) (sum_k C_jk y_bk - x_bj sum_k C_jk^2), x and y standardised.

    `projected` is the first sum, `squares` the second. The first term differentiates C, the second the standard
    deviation; the derivative through the mean vanishes because the columns of Y sum to 0.
    """
    return TWO * inverse / float32(count - 1) * fma(-value, squares, projected)
