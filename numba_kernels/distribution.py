"""Scalar arithmetic of the categorical projection (C51), with every rounding spelled out by `fma`."""

from __future__ import annotations

import math

from numba import float32

from .fma import fma

ZERO, ONE = float32(0.0), float32(1.0)


def shifted_atom(reward, discount, atom, low, high):
    """clip(r + g z, low, high); a NaN stays one, where a bare clip would turn it into a bound."""
    position = fma(discount, atom, reward)
    return position if math.isnan(position) else min(max(position, low), high)


def hat(position, atom, per_spacing):
    """[1 - |position - atom| / dz]_0^1: the share of the mass at `position` that `atom` receives."""
    return max(fma(-abs(position - atom), per_spacing, ONE), ZERO)
