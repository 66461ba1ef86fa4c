"""Which place of a ring a number in [0, 1) means, when all that may begin a transition weigh alike."""

from __future__ import annotations

from numba import float32, int64, uint64

UNIT_BITS = uint64(24)  # of the uniform numbers
UNIT = float32(2.0**24)


def place(u, part, batch, bars, columns, environments, n_step):
    """The place in part `part` of `batch`, `u` being where in it; signed and unsigned words of 64 bits."""
    written = min(int64(bars), int64(columns))
    count = uint64((written - n_step + 1) * environments)
    drawn = ((part << UNIT_BITS) + uint64(u * UNIT)) * count // (batch << UNIT_BITS)
    column = int64(drawn // uint64(environments))
    if bars > columns:  # full: beyond the oldest column lie the newest
        oldest = int64(bars) % int64(columns)
        first_out = oldest - (n_step - 1)
        if first_out < 0:
            column += oldest
        elif column >= first_out:
            column += n_step - 1
    return column * environments + int64(drawn % uint64(environments))
