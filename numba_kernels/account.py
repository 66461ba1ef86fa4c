"""Arithmetic of the simulated account, in float64: one bar of one walk, and a walk over a span.

The account is described by its equity E (1 at the start of the walk) and the drifted weight w = position value / E.
Between two closes it passes through three stages: the gap to the next open with the old position, a trade at that
open, the day with the new position. Products next to sums are written as fma, so that CPU and GPU agree to the bit.
"""

from __future__ import annotations

import math

from numba import float64, int8, int32, int64

from .fma import fma

ZERO, ONE, THREE = float64(0.0), float64(1.0), float64(3.0)
TARGETS = 7
FLAT = int64(0)
TRADE_RATE, FINANCING, BORROW, BAND, BANKRUPTCY = range(5)  # columns of a row of costs


def exposure(index):
    """Exposure of a target index: 0; -1/3, -2/3, -1 (1 to 3); +1/3, +2/3, +1 (4 to 6)."""
    if index == 0:
        return ZERO
    return -(float64(index) / THREE) if index < 4 else float64(index - 3) / THREE


def can_advance(row, rows, target, choice):
    """Whether the next bar exists and both targets are ones that `exposure` knows."""
    return 0 <= row < rows - 1 and 0 <= target < TARGETS and 0 <= choice < TARGETS


def hold(weight, equity, before, after, charge):
    """(weight, equity) after the price moves from `before` to `after`; `charge` is a cost as a fraction of equity."""
    growth = after / before
    factor = fma(weight, growth - ONE, ONE) - charge
    return weight * growth / factor, equity * factor


def trade(weight, equity, goal, rate):
    """(equity after, traded notional / equity before) when trading to the weight `goal` with the cost inside the size.

    The cost is `rate` x the traded notional |goal E2 - weight E1| and equals E1 - E2, which gives E2 in closed form.
    """
    signed = rate if goal > weight else -rate
    kept = fma(signed, weight, ONE) / fma(signed, goal, ONE)
    return equity * kept, abs(fma(goal, kept, -weight))


def carry(weight, years, costs, p):
    """Financing and borrow of a position held for `years`, as a fraction of equity."""
    return fma(costs[p, FINANCING], abs(weight), costs[p, BORROW] * max(-weight, ZERO)) * years


def advance(open, close, years, row, weight, equity, target, choice, costs, p):
    """One bar, from close[row] to close[row + 1]: (weight, equity, target, turnover, bankrupt).

    At or below the bankruptcy equity at the open, after the trade or at the close, the walk ends: equity is set to that
    equity, position and target to none; what is lost beyond it is not booked.
    """
    floor = costs[p, BANKRUPTCY]
    weight, equity = hold(weight, equity, close[row], open[row + 1], carry(weight, years[row], costs, p))
    turnover = ZERO
    if equity > floor and abs(exposure(choice) - exposure(target)) > costs[p, BAND]:
        equity, turnover = trade(weight, equity, exposure(choice), costs[p, TRADE_RATE])
        weight, target = exposure(choice), choice
    if equity > floor:
        weight, equity = hold(weight, equity, open[row + 1], close[row + 1], ZERO)
    if equity <= floor:
        return ZERO, floor, FLAT, turnover, True
    return weight, equity, target, turnover, False


def step_walk(open, close, years, row, target, weight, equity, choice, costs, reward, bankrupt, p, e):
    """Advances walk (p, e) by one bar, in place."""
    r = row[p, e]
    if not can_advance(r, close.size, target[p, e], choice[p, e]):
        reward[p, e] = math.nan
        return
    row[p, e] = r + 1
    if bankrupt[p, e] != 0:
        reward[p, e] = ZERO
        return
    before = equity[p, e]
    w, after, t, _, ended = advance(open, close, years, r, weight[p, e], before, target[p, e], choice[p, e], costs, p)
    weight[p, e], equity[p, e], target[p, e] = w, after, t
    reward[p, e] = math.log(after / before)
    bankrupt[p, e] = int32(1) if ended else int32(0)


def scan_walk(open, close, years, row0, length, choice, costs, returns, target, turnover, bankrupt, p, s):
    """Walks symbol s of member p over its span, from flat and equity 1."""
    weight, equity, last, ended = ZERO, ONE, FLAT, False
    resting = ZERO  # the return written when no bar is walked: NaN once a bar or a choice could not be read
    for t in range(choice.shape[2]):
        earned, traded = resting, ZERO
        if t < length[p, s] and not ended and resting == ZERO:
            row, chosen = row0[p, s] + t, int64(choice[p, s, t, last])
            if can_advance(row, close.size, last, chosen):
                before = equity
                weight, equity, last, traded, ended = advance(
                    open, close, years, row, weight, equity, last, chosen, costs, p
                )
                earned = equity / before - ONE
            else:
                earned = resting = float64(math.nan)
        returns[p, s, t], turnover[p, s, t], target[p, s, t] = earned, traded, int8(last)
    bankrupt[p, s] = int32(1) if ended else int32(0)
