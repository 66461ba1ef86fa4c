"""The simulated account, through market_step and evaluation_scan."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import bits, walk_table

from numba_kernels import EXPOSURES, evaluation_scan, market_step

RATE, FINANCING, BORROW, BAND, FLOOR = 0.003, 0.02, 0.05, 0.0, 0.05
FREE = (0.0, 0.0, 0.0, 0.0, 1e-9)
CHARGED = (RATE, FINANCING, BORROW, BAND, FLOOR)


def scan(table, choices, costs):
    """(returns, target, turnover, bankrupt) of one walk over all bars of the table that takes choices[t] at bar t."""
    count = len(choices)
    choice = torch.tensor(choices, dtype=torch.int8).view(1, 1, count, 1).repeat(1, 1, 1, 7)
    returns, turnover = (torch.zeros(1, 1, count, dtype=torch.float64) for _ in "ab")
    target, bankrupt = torch.zeros(1, 1, count, dtype=torch.int8), torch.zeros(1, 1, dtype=torch.int32)
    start, length = torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 1), count)
    costs = torch.tensor([costs], dtype=torch.float64)
    evaluation_scan(*table, start, length, choice, costs, returns, target, turnover, bankrupt)
    return returns[0, 0].numpy(), target[0, 0].tolist(), turnover[0, 0].numpy(), bankrupt.item()


def equity(table, choices, costs):
    return float(np.prod(1.0 + scan(table, choices, costs)[0]))


def step(table, choices, costs):
    """Rewards of the same walk taken bar by bar, and its final state (target, weight, equity, bankrupt)."""
    row, target, choice = (torch.zeros(1, 1, dtype=torch.int64) for _ in range(3))
    weight, reward = (torch.zeros(1, 1, dtype=torch.float64) for _ in range(2))
    money, bankrupt = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.int32)
    rewards, equities = [], [1.0]
    for chosen in choices:
        choice.fill_(chosen)
        costs_row = torch.tensor([costs], dtype=torch.float64)
        market_step(*table, row, target, weight, money, choice, costs_row, reward, bankrupt)
        rewards.append(reward.item())
        equities.append(money.item())
    return np.array(rewards), np.array(equities), target.item(), weight.item(), bankrupt.item()


def constant_price(rows, price=10.0):
    return [torch.full((rows,), price, dtype=torch.float64) for _ in "ab"] + [torch.full((rows,), 0.25).double()]


def choices_of(seed, count):
    return np.random.default_rng(seed).integers(0, 7, count).tolist()


def ledger(table, choices, costs):
    """Equities of the same account kept in cash and units, trades found by fixed-point iteration: no formula shared."""
    opens, closes, years = (t.numpy() for t in table)
    rate, financing, borrow, band, _ = costs
    cash, units, target, path = 1.0, 0.0, 0, [1.0]
    for t, choice in enumerate(choices):
        worth = units * closes[t]
        cash -= (financing * abs(worth) + borrow * max(-worth, 0.0)) * years[t]
        total = cash + units * opens[t + 1]
        if abs(EXPOSURES[choice] - EXPOSURES[target]) > band:
            after = total
            for _ in range(200):
                wanted = EXPOSURES[choice] * after / opens[t + 1]
                after = total - rate * abs(wanted - units) * opens[t + 1]
            cash, units, target = after - wanted * opens[t + 1], wanted, choice
        path.append(cash + units * closes[t + 1])
    return np.array(path)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([FREE, CHARGED, (0.01, 0.0, 0.0, 0.5, 1e-9)]))
def test_equity_is_that_of_cash_and_units(seed, costs):
    table, choices = walk_table(60, seed), choices_of(seed, 59)
    np.testing.assert_allclose(step(table, choices, costs)[1], ledger(table, choices, costs), rtol=1e-10)


def test_value_is_conserved_at_zero_cost_and_constant_price():
    assert equity(constant_price(40), choices_of(0, 39), FREE) == 1.0


def test_holding_long_earns_the_price_ratio_and_short_its_negative():
    table = walk_table(30, 3)
    long = equity(table, [6] * 29, FREE)
    assert long == pytest.approx((table[1][29] / table[0][1]).item(), rel=1e-12)
    returns, _, turnover, _ = scan(table, [3] * 29, FREE)
    assert returns[0] == pytest.approx(1.0 - (table[1][1] / table[0][1]).item(), rel=1e-12)
    assert (turnover[1:] == 0.0).all()  # the short weight drifts and is left alone while the target stays


def test_round_trip_costs_exactly_one_minus_c_over_one_plus_c():
    for way in (6, 3):
        walked = equity(constant_price(4), [way, 0, 0], (RATE, 0.0, 0.0, 0.0, 1e-9))
        expected = (1.0 - RATE) / (1.0 + RATE)
        assert walked == pytest.approx(expected, rel=1e-15)
    _, _, turnover, _ = scan(constant_price(4), [6, 0, 0], (RATE, 0.0, 0.0, 0.0, 1e-9))
    assert turnover == pytest.approx([1.0 / (1.0 + RATE), 1.0, 0.0], rel=1e-14)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rewards_sum_to_the_log_of_final_equity(seed):
    rewards, equities, *_ = step(walk_table(60, seed), choices_of(seed, 59), CHARGED)
    assert rewards.sum() == pytest.approx(math.log(equities[-1]), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 57))
def test_another_action_gives_another_result_from_that_bar_on(seed, when):
    table, choices = walk_table(60, seed), choices_of(seed, 59)
    before = scan(table, choices, CHARGED)[0]
    choices[when] = (choices[when] + 1) % 7
    after = scan(table, choices, CHARGED)[0]
    assert (before[:when] == after[:when]).all()
    assert before[when] != after[when]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.floats(1e-5, 0.05))
def test_more_cost_never_gives_more_equity(seed, which, more):
    table, choices = walk_table(60, seed), choices_of(seed, 59)
    dearer = [*CHARGED]
    dearer[which] += more
    assert equity(table, choices, dearer) <= equity(table, choices, CHARGED)


def mirrored(table):
    """Prices whose simple return over every segment (close to open, open to close) is the negative of the table's."""
    opens, closes, years = (t.numpy() for t in table)
    path = np.ravel(np.column_stack([opens, closes]))
    ratio = 2.0 - path[1:] / path[:-1]
    turned = path[0] * np.concatenate([[1.0], np.cumprod(ratio)])
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in (turned[0::2], turned[1::2], years)]


def opposite(choices):
    return [0 if c == 0 else (c + 3 if c < 4 else c - 3) for c in choices]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_mirror_with_a_trade_at_every_open(seed):
    """At zero cost, when every bar trades to a new target at an open that equals the previous close, negating every
    segment's simple return and every position leaves the equity as it is: then E = prod(1 + w_t d_t).

    A held weight drifts to w(1+d)/(1+wd), which the mirror turns into -w(1-d)/(1+wd): gaps with a position, held
    targets and trade costs are not mirrored.
    """
    table = walk_table(60, seed)
    table[0][1:] = table[1][:-1]
    moves = np.random.default_rng(seed).integers(1, 7, 59)
    choices = (np.cumsum(moves) % 7).tolist()  # never the same target twice in a row
    left, right = step(table, choices, FREE)[1], step(mirrored(table), opposite(choices), FREE)[1]
    np.testing.assert_allclose(left, right, rtol=1e-12)
    assert np.ptp(left) > 0.0


def test_mirror_segment_by_segment():
    """In general a held position drifts with the price, so the mirror holds per segment: one gap or one day."""
    from numba_kernels.account import hold

    for weight, ratio in ((0.7, 1.03), (-1.0, 0.9), (1 / 3, 1.2)):
        equity_of = lambda w, r: hold(w, 1.0, 1.0, r, 0.0)[1]
        assert equity_of(weight, ratio) == pytest.approx(equity_of(-weight, 2.0 - ratio), rel=1e-15)


def test_financing_and_borrow_accrue_on_the_position():
    flat_price = constant_price(3)
    costs = (0.0, 0.02, 0.05, 0.0, 1e-9)
    assert scan(flat_price, [5, 5], costs)[0] == pytest.approx([0.0, -0.02 * 2 / 3 * 0.25], rel=1e-13)
    assert scan(flat_price, [3, 3], costs)[0] == pytest.approx([0.0, -(0.02 + 0.05) * 0.25], rel=1e-13)
    assert scan(flat_price, [0, 0], costs)[0].tolist() == [0.0, 0.0]


def test_a_band_compares_targets():
    table = walk_table(5, 0)
    _, target, turnover, _ = scan(table, [6, 5, 4, 1], (RATE, 0.0, 0.0, 0.5, 1e-9))
    assert target == [6, 6, 4, 1]  # 1 -> 2/3 moves by 1/3; 1 -> 1/3 and 1/3 -> -1/3 by 2/3
    assert (turnover > 0.0).tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("opens", "closes"), [([10, 10, 10, 9], [10, 10, 0.2, 9]), ([10, 10, 0.2, 9], [10, 10, 0.3, 9])], ids=["day", "gap"]
)
def test_bankruptcy_is_at_the_floor_and_for_good(opens, closes):
    table = [torch.tensor(a, dtype=torch.float64) for a in (opens, closes, [0.0] * 4)]
    rewards, equities, target, weight, bankrupt = step(table, [6, 6, 3], CHARGED)
    assert (target, weight, bankrupt) == (0, 0.0, 1)
    assert equities[2:].tolist() == [FLOOR, FLOOR]
    assert rewards[2] == 0.0
    assert rewards.sum() == pytest.approx(math.log(FLOOR), abs=1e-12)
    returns, targets, turnover, ended = scan(table, [6, 6, 3], CHARGED)
    assert ended == 1
    assert targets == [6, 0, 0]
    assert returns[2] == turnover[2] == 0.0
    assert np.prod(1.0 + returns) == pytest.approx(FLOOR, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.6]))
def test_scan_equals_steps_to_the_bit(seed, spread):
    """With a spread of 0.6 about every second walk goes bankrupt on the way."""
    table, choices = walk_table(40, seed, spread), choices_of(seed, 39)
    returns, targets, _, ended = scan(table, choices, CHARGED)
    _, equities, target, _, bankrupt = step(table, choices, CHARGED)
    assert (returns == equities[1:] / equities[:-1] - 1.0).all()
    assert (targets[-1], ended) == (target, bankrupt)


def test_exposures_are_thirds_in_the_agreed_order():
    assert EXPOSURES == (0.0, -1 / 3, -2 / 3, -1.0, 1 / 3, 2 / 3, 1.0)


def test_a_walk_that_leaves_the_table_shows_nan_and_stays():
    table = walk_table(4, 0)
    rewards, equities, *_ = step(table, [6] * 5, CHARGED)
    assert np.isnan(rewards).tolist() == [False] * 3 + [True] * 2
    assert equities[3] == equities[5]
    assert np.isnan(scan(table, [6] * 5, CHARGED)[0]).tolist() == [False] * 3 + [True] * 2
    assert np.isnan(scan(walk_table(9, 0), [6, 7, 6], CHARGED)[0]).tolist() == [False, True, True]


def test_the_choice_depends_on_the_last_target_and_ends_with_the_length():
    table = walk_table(9, 4)
    choice = torch.tensor([4, 5, 1, 1, 6, 0, 2], dtype=torch.int8).repeat(1, 1, 6, 1).contiguous()
    returns, turnover = (torch.ones(1, 1, 6, dtype=torch.float64) for _ in "ab")
    target, bankrupt = torch.ones(1, 1, 6, dtype=torch.int8), torch.ones(1, 1, dtype=torch.int32)
    costs = torch.tensor([CHARGED], dtype=torch.float64)
    row0, length = torch.tensor([[2]]), torch.tensor([[4]])
    evaluation_scan(*table, row0, length, choice, costs, returns, target, turnover, bankrupt)
    assert target.flatten().tolist() == [4, 6, 2, 1, 1, 1]  # 0 -> 4 -> 6 -> 2 -> 1, then the end
    assert returns[0, 0, 4:].tolist() == turnover[0, 0, 4:].tolist() == [0.0, 0.0]
    moved = [t[2:].contiguous() for t in table]
    assert torch.equal(bits(torch.from_numpy(scan(moved, [4, 6, 2, 1], CHARGED)[0])), bits(returns[0, 0, :4]))
