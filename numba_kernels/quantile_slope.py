"""Scalar arithmetic of the quantile Huber loss."""

from __future__ import annotations

from numba import float32

from .fma import fma

ZERO, ONE, HALF = float32(0.0), float32(1.0), float32(0.5)


def slope(d, level, kappa):
    """|level - 1{d < 0}| x H'(d) / kappa of the error `d` = target - value. A NaN stays NaN."""
    clipped = kappa if d > kappa else (-kappa if d < -kappa else d)
    unit = clipped / kappa
    return unit * (level if unit > ZERO else ONE - level)


def lever(d, kappa):
    """What times the slope is the loss: d - clip(d) / 2."""
    clipped = kappa if d > kappa else (-kappa if d < -kappa else d)
    return fma(-HALF, clipped, d)
