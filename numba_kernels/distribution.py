"""Scalar arithmetic of the categorical projection (C51), with every rounding spelled out by `fma`."""

from __future__ import annotations

import math

from numba import float32

from .fma import fma

ZERO, ONE = float32(0.0), float32(1.0)


def grid_position(mass, reward, discount, atom, low, per_spacing, last):
    """(r + g z - z_1) / dz clamped to [0, last], the place on the grid of atoms to which `mass` moves.

    Clamped after the division, which can round past the last atom. Not a number where the mass or the place is not
    finite: a bare clamp would turn a broken reward into a bound.
    """
    position = (fma(discount, atom, reward) - low) * per_spacing
    if not (math.isfinite(position) and math.isfinite(mass)):
        return float32(math.nan)
    return min(max(position, ZERO), last)


def hat(position, index):
    """[1 - |position - index|]_0^1: the share of the mass at `position` that atom `index` receives.

    In units of the spacing the two shares of a mass sum to 1 within one rounding. In units of the return they would
    sum to the rounded distance of two atoms over the rounded spacing, which is off by 1e-6 with 51 atoms.
    """
    return max(ONE - abs(position - index), ZERO)
