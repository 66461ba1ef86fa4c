"""Scalar arithmetic of the distillation pull: how strongly a member is drawn towards its best snapshot."""

from __future__ import annotations

import math

from numba import float32

ZERO, ONE = float32(0.0), float32(1.0)


def pull(health, largest, limit, armed):
    """largest x clip((limit - health) / limit, 0, 1); 0 if not armed or without a limit. A NaN health counts as 0."""
    if armed == ZERO or not limit > ZERO or health >= limit:
        return ZERO
    if math.isnan(health):
        return largest
    return largest * min((limit - health) / limit, ONE)
