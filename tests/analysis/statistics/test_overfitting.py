"""Vectors of the noise cases: phacker 0.1.0 and purgedcv 0.1.11 agree on them. The hand case they do not agree on."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import ten_trials

from analysis.statistics import backtest_overfitting

HAND = 0.01 * np.array(
    [[1, 2, 0], [2, 1, 1], [0, 1, 3], [1, 0, 2], [2, 2, 1], [1, 3, 0], [3, 0, 1], [2, 1, 2]], dtype=float
)


def by_hand(table, blocks):
    """The definition, one split at a time."""
    parts, losses = np.array_split(table, blocks), []
    for chosen in combinations(range(blocks), blocks // 2):
        inside = np.concatenate([parts[block] for block in chosen])
        outside = np.concatenate([parts[block] for block in range(blocks) if block not in chosen])
        score, later = (np.round(half.mean(0) / half.std(0, ddof=1), 12) for half in (inside, outside))
        lost = []
        for winner in np.flatnonzero(score == score.max()):
            rank = (later < later[winner]).sum() + 0.5 * ((later == later[winner]).sum() + 1)
            lost.append(np.sign(rank / (len(later) + 1) - 0.5))
        losses.append(np.mean([{-1.0: 1.0, 0.0: 0.5, 1.0: 0.0}[sign] for sign in lost]))
    return np.mean(losses)


@pytest.mark.parametrize(
    ("skill", "value", "logit"), [(0.0, 0.4714285714, -0.13048702), (0.003, 0.0285714286, 2.19197608)]
)
def test_noise_and_one_trial_with_skill(skill, value, logit):
    found = backtest_overfitting(ten_trials(skill), blocks=8)
    assert found.value == pytest.approx(value, abs=1e-10)
    assert found.mean_logit == pytest.approx(logit, abs=1e-8)
    assert (found.splits, found.trials) == (70, 10)
    assert found.text.startswith(f"PBO {value:.2f} over 70 splits of 10 trials")


def test_ties_count_one_half():
    """Other libraries give 0.5 ("<=" 0 counts) and 0.1667 ("<" 0): the middle of three trials is a tie."""
    found = backtest_overfitting(HAND, blocks=4)
    assert found.value == pytest.approx(by_hand(HAND, 4))
    assert found.value == pytest.approx(1.0 / 3.0)
    equal = np.repeat(ten_trials()[:, :1], 4, axis=1)
    assert backtest_overfitting(equal, blocks=8).value == 0.5


def test_sixteen_blocks_by_definition():
    table = ten_trials(0.001)[:87, :5]  # blocks of 5 and 6 bars
    found = backtest_overfitting(table, blocks=10)
    assert found.value == pytest.approx(by_hand(table, 10))
    assert backtest_overfitting(ten_trials(), blocks=16).splits == 12870


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(5)), st.integers(0, 10_000))
def test_the_order_of_the_trials_does_not_matter(order, seed):
    table = np.random.default_rng(seed).integers(-2, 4, (24, 5)) * 0.01
    table[:, 2] = table[:, 1]
    one, two = backtest_overfitting(table, blocks=6), backtest_overfitting(table[:, list(order)], blocks=6)
    assert 0.0 <= one.value <= 1.0
    assert one.value == pytest.approx(two.value)
    assert one.mean_logit == pytest.approx(two.mean_logit)


def test_a_constant_trial_scores_zero():
    table = ten_trials()[:, :3] - 0.01  # the others lose
    table[:, 1] = 1e-4
    assert backtest_overfitting(table, blocks=8).value == 0.0
    table[:, 1] = -1e-4  # its mean over no deviation would be the worst number there is
    assert backtest_overfitting(table, blocks=8).value == 0.0
    still = ten_trials()[:, :3]
    still[:120, 1] = 3e-4  # constant in one half only
    assert np.isfinite(backtest_overfitting(still, blocks=8).mean_logit)


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="at least 2 trials"):
        backtest_overfitting(ten_trials()[:, :1])
    for blocks in (7, 0, 122):
        with pytest.raises(ValueError, match="even"):
            backtest_overfitting(ten_trials(), blocks=blocks)
