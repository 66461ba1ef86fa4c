"""Vectors: Bailey and Lopez de Prado (2014), Notices AMS 61(5); R36 among ten trials by skfolio 1.12.2."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import R36, equicorrelated, ten_trials

from analysis.statistics import (
    Moments,
    deflated_sharpe,
    effective_trials,
    expected_maximum,
    minimum_backtest_length,
    probabilistic_sharpe,
    selection_threshold,
    simulated_maxima,
    trial_correlation,
)

CLOSED = {2: 0.5198, 5: 1.1926, 10: 1.5746, 20: 1.9007, 46: 2.2442, 50: 2.2763, 88: 2.4853, 100: 2.5306, 200: 2.7655,
          500: 3.0525, 1000: 3.2551, 10000: 3.8607}  # fmt: skip
EXACT = {2: 0.5642, 5: 1.1630, 10: 1.5388, 20: 1.8675, 50: 2.2491, 100: 2.5076, 200: 2.7460, 1000: 3.2414}
TRIALS = np.array([0.05, -0.02, 0.08, 0.01, 0.11, -0.04, 0.03, 0.06, 0.0, 0.09])


@pytest.mark.parametrize("count", CLOSED)
def test_closed_form_of_the_expected_maximum(count):
    assert expected_maximum(count, exact=False) == pytest.approx(CLOSED[count], abs=5.1e-5)


@pytest.mark.parametrize("count", EXACT)
def test_exact_expected_maximum(count):
    assert expected_maximum(count) == pytest.approx(EXACT[count], abs=5.1e-5)


def test_two_normal_numbers_have_a_known_maximum():
    assert expected_maximum(2) == pytest.approx(1.0 / np.sqrt(np.pi), abs=1e-9)
    assert expected_maximum(1) == 0.0
    assert expected_maximum(1_000_000) == pytest.approx(4.8636, abs=1e-3)


@settings(deadline=None)
@given(st.floats(1.0, 1e5), st.floats(1.0, 1e5))
def test_more_trials_reach_higher(one, two):
    low, high = sorted((one, two))
    assert expected_maximum(low) <= expected_maximum(high) + 1e-9


@pytest.mark.parametrize(
    ("count", "skew", "kurtosis", "threshold", "value"),
    [
        (100, -3.0, 10.0, 0.113172001865, 0.900396834449),
        (46, -3.0, 10.0, 0.100362370618, 0.950501706876),
        (88, 0.0, 3.0, None, 0.950490816676),
    ],
)
def test_deflated_examples_of_the_paper(count, skew, kurtosis, threshold, value):
    chosen = Moments(1250, 2.5 / np.sqrt(250.0), skew, kurtosis)
    found = selection_threshold(0.5 / 250.0, count, exact=False)
    assert threshold is None or found == pytest.approx(threshold, abs=1e-11)
    assert probabilistic_sharpe(chosen, found) == pytest.approx(value, abs=1e-10)


def test_annual_variance_with_a_per_bar_ratio_is_the_unit_trap():
    chosen, trap = Moments(1250, 2.5 / np.sqrt(250.0), -3.0, 10.0), selection_threshold(0.5, 100, exact=False)
    assert trap == pytest.approx(1.789, abs=5e-4)
    assert probabilistic_sharpe(chosen, trap) < 1e-12


def test_reference_series_among_ten_trials():
    assert TRIALS.std(ddof=1) == pytest.approx(0.04945255863507525, abs=1e-15)
    threshold = selection_threshold(TRIALS.var(ddof=1), 10, exact=False)
    assert threshold == pytest.approx(0.0778679148239906, abs=1e-13)
    assert probabilistic_sharpe(R36, threshold) == pytest.approx(0.9996295510100262, abs=1e-13)


@pytest.mark.parametrize(("count", "years"), [(10, 2.479), (45, 4.998), (100, 6.404)])
def test_minimum_backtest_length(count, years):
    assert minimum_backtest_length(count, exact=False) == pytest.approx(years, abs=5.1e-4)
    assert minimum_backtest_length(count, 2.0, exact=False) == pytest.approx(years / 4.0, abs=2e-4)
    assert minimum_backtest_length(count) < years


@pytest.mark.parametrize(
    ("count", "rho", "linear", "participation", "entropy", "maximum"),
    [
        (10, 0.5, 5.5, 3.077, 5.349, 1.0881),
        (10, 0.9, 1.9, 1.206, 1.649, 0.4866),
        (100, 0.5, 50.5, 3.883, 19.447, 1.7731),
        (100, 0.9, 10.9, 1.232, 2.177, 0.7930),
    ],
)
def test_effective_numbers_do_not_give_the_maximum_and_drawing_does(
    count, rho, linear, participation, entropy, maximum
):
    correlation = equicorrelated(count, rho)
    found = effective_trials(correlation)
    values = (found.linear, found.participation, found.entropy)
    assert values == pytest.approx((linear, participation, entropy), abs=5.1e-4)
    assert np.sqrt(1.0 - rho) * expected_maximum(count) == pytest.approx(maximum, abs=5.1e-5)
    assert simulated_maxima(correlation).mean() == pytest.approx(maximum, abs=0.025)
    assert min(abs(expected_maximum(value) - maximum) for value in values) > 0.03


def test_variance_of_the_maximum():
    correlated, independent = simulated_maxima(equicorrelated(10, 0.5)), simulated_maxima(np.eye(10))
    assert correlated.mean() == pytest.approx(1.0862, abs=0.02)
    assert correlated.var() == pytest.approx(0.6727, abs=0.025)
    assert independent.var() == pytest.approx(0.344, abs=0.015)


def test_draws_repeat_themselves():
    first = simulated_maxima(equicorrelated(5, 0.3), draws=5000, seed=3)
    assert first.tobytes() == simulated_maxima(equicorrelated(5, 0.3), draws=5000, seed=3).tobytes()
    assert first.shape == (5000,)
    assert first.tobytes() != simulated_maxima(equicorrelated(5, 0.3), draws=5000, seed=4).tobytes()


def test_identical_trials_are_one_trial():
    assert simulated_maxima(np.ones((50, 50))).mean() == pytest.approx(0.0, abs=0.03)
    assert effective_trials(np.ones((50, 50))).participation == pytest.approx(1.0)
    copies = np.repeat(ten_trials(0.002)[:, 3:4], 20, axis=1)
    found = deflated_sharpe(copies, periods_per_year=252)
    assert found.threshold == 0.0
    assert found.value == pytest.approx(found.psr)


def test_independent_trials_deflate_as_the_paper_does():
    found = deflated_sharpe(ten_trials(0.003), periods_per_year=252)
    assert (found.chosen, found.best, found.bars, found.trials.n) == (3, True, 240, 10)
    assert found.threshold == pytest.approx(found.independent, rel=0.02)
    ratios = ten_trials(0.003).mean(axis=0) / ten_trials(0.003).std(axis=0, ddof=1)
    assert found.independent == pytest.approx(ratios.std(ddof=1) * 1.5388 * np.sqrt(252), rel=1e-4)
    assert found.value < found.psr


def test_clusters_of_trials_are_not_counted_as_independent():
    rng = np.random.default_rng(5)
    groups = np.repeat(rng.standard_normal((1000, 3)), 20, axis=1)
    table = 0.01 * (groups + 0.2 * rng.standard_normal((1000, 60)))
    found = deflated_sharpe(table, periods_per_year=252)
    assert found.trials.participation < 4.0
    assert found.threshold < 0.7 * found.independent


def test_without_skill_the_threshold_is_where_the_best_trial_lands():
    """40 trials in 4 clusters on a common path, 100 sweeps: DSR is about one half, and rarely above 0.95."""
    rng, values = np.random.default_rng(1), []
    for _ in range(100):
        clusters = np.repeat(rng.standard_normal((500, 4)), 10, axis=1)
        table = 0.5 * rng.standard_normal((500, 1)) + clusters + 0.3 * rng.standard_normal((500, 40))
        values.append(deflated_sharpe(table, periods_per_year=252, draws=2000).value)
    assert np.mean(values) == pytest.approx(0.53, abs=0.08)
    assert np.mean(np.array(values) > 0.95) <= 0.05


def test_any_trial_can_be_the_chosen_one_and_frames_and_lists_do():
    table = ten_trials(0.003)
    by_frame = deflated_sharpe(pd.DataFrame(table), 7, periods_per_year=252)
    assert by_frame == deflated_sharpe(list(table.T), 7, periods_per_year=252)
    assert (by_frame.chosen, by_frame.best) == (7, False)
    assert "chosen from 10 trials" in by_frame.text
    text = deflated_sharpe(table, periods_per_year=252).text
    assert text.startswith("Sharpe +3.48 ± ")
    assert "the best of 10 trials" in text
    assert "DSR 0.8" in text


def test_a_trial_that_never_trades_stays_in_the_count():
    table = ten_trials(0.003)
    table[:, 0] = 0.0
    assert np.isfinite(trial_correlation(table)).all()
    assert deflated_sharpe(table, periods_per_year=252).trials.n == 10
    with pytest.raises(ValueError, match="do not vary"):
        deflated_sharpe(table, 0, periods_per_year=252)


def test_one_trial_was_not_selected():
    found = deflated_sharpe(R36[:, None], periods_per_year=12)
    assert found.threshold == found.independent == 0.0
    assert found.value == pytest.approx(0.9999044169049112)


def test_bad_selections_are_refused():
    with pytest.raises(ValueError, match=r"series of \[35, 36\] bars"):
        deflated_sharpe([R36, R36[1:]], periods_per_year=12)
    with pytest.raises(ValueError, match=r"expected \[bars, trials\]"):
        deflated_sharpe(R36, periods_per_year=12)
    with pytest.raises(ValueError, match=r"returns: 1 of 2400 values are not finite; the first is at \(2, 1\)"):
        deflated_sharpe(np.where(np.arange(2400).reshape(240, 10) == 21, np.inf, ten_trials()), periods_per_year=12)
    with pytest.raises(ValueError, match=r"expected \[bars, trials\]"):
        deflated_sharpe([], periods_per_year=12)
    with pytest.raises(ValueError, match="no column of 10 trials"):
        deflated_sharpe(ten_trials(), 10, periods_per_year=12)
    with pytest.raises(ValueError, match="symmetric"):
        simulated_maxima([[1.0, 0.5], [0.2, 1.0]])
    with pytest.raises(ValueError, match="negative eigenvalue"):
        simulated_maxima(equicorrelated(5, -0.9))
    with pytest.raises(ValueError, match="square"):
        effective_trials(np.ones((2, 3)))
    with pytest.raises(ValueError, match="at least 1"):
        expected_maximum(0.5)
    with pytest.raises(ValueError, match="variance"):
        selection_threshold(-1.0, 10)
    with pytest.raises(ValueError, match="sharpe must be positive"):
        minimum_backtest_length(10, 0.0)
