"""Vectors: Bailey and Lopez de Prado (2012); R36 by skfolio 1.12.2, which has the same convention."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import R36
from scipy.stats import kurtosis, norm, skew

from analysis.statistics import Moments, minimum_track_record, moments, probabilistic_sharpe

MONTHLY = 1.59 / np.sqrt(12.0)


@pytest.mark.parametrize(
    ("example", "value"),
    [
        (Moments(24, MONTHLY), 0.981858472823),
        (Moments(24, MONTHLY, skew=-2.448, kurtosis=10.164), 0.913640163892),
    ],
)
def test_examples_of_the_paper(example, value):
    assert probabilistic_sharpe(example) == pytest.approx(value, abs=1e-11)


def test_reference_series():
    assert probabilistic_sharpe(R36) == pytest.approx(0.9999044169049112, abs=1e-14)
    assert probabilistic_sharpe(R36, 0.5) == pytest.approx(0.9253078371964804, abs=1e-13)


def test_conventions_of_other_libraries_are_known_and_are_not_ours():
    unbiased = Moments(36, R36.mean() / R36.std(), skew(R36, bias=False), kurtosis(R36, fisher=False, bias=False))
    assert probabilistic_sharpe(unbiased) == pytest.approx(0.9999059250585817, abs=1e-13)  # purgedcv 0.1.11
    assert probabilistic_sharpe(unbiased, 0.5) == pytest.approx(0.9299344686495922, abs=1e-12)
    own = moments(R36)
    at_benchmark = Moments(36, 0.5, own.skew, own.kurtosis).variance_factor  # jsharpe 0.6.3 puts it in there
    theirs = norm.cdf((own.sharpe - 0.5) * np.sqrt(36) / np.sqrt(at_benchmark))
    ours = norm.cdf((own.sharpe - 0.5) * np.sqrt(35) / np.sqrt(own.variance_factor))
    assert probabilistic_sharpe(R36, 0.5) == pytest.approx(ours, abs=1e-14)
    assert theirs == pytest.approx(0.9471416878344431, abs=1e-12)


def test_a_benchmark_is_per_bar_whatever_the_scale_of_the_returns():
    assert probabilistic_sharpe(R36 * 100.0, 0.5) == pytest.approx(probabilistic_sharpe(R36, 0.5), rel=1e-12)
    # quantstats 0.0.86 gives 0.99989056 for R36 whether asked to annualise or not.
    assert probabilistic_sharpe(R36, 0.5 * np.sqrt(12.0)) < 0.001


@pytest.mark.parametrize(
    ("example", "benchmark", "bars"),
    [
        (Moments(24, 0.036 / 0.079, skew=-2.448, kurtosis=10.164), 0.0, 34.76135780432688),
        (Moments(252, 1.0 / np.sqrt(252.0)), 0.0, 684.1497221590921),
        (Moments(252, 2.0 / np.sqrt(252.0)), 1.0 / np.sqrt(252.0), 688.2080373402351),
        (Moments(252, 0.5), 0.2, 34.819293176),  # purgedcv rounds it up to 35
    ],
)
def test_minimum_track_record(example, benchmark, bars):
    assert minimum_track_record(example, benchmark) == pytest.approx(bars, abs=1e-8)


def test_track_record_of_daily_sharpe_one_takes_years():
    assert minimum_track_record(Moments(252, 1.0 / np.sqrt(252.0))) / 252.0 == pytest.approx(2.7149, abs=5e-5)


def test_track_record_where_the_variance_is_taken_at_the_benchmark():
    ratio = 0.036 / 0.079  # jsharpe: the variance at a benchmark of 0 is 1
    assert 1.0 * (norm.isf(0.05) / ratio) ** 2 == pytest.approx(13.028778315593735, abs=1e-9)
    assert minimum_track_record(Moments(24, ratio, skew=-2.448, kurtosis=10.164)) > 2.0 * 13.03


def test_no_track_record_shows_what_is_not_there():
    assert minimum_track_record(R36, benchmark=0.9) == np.inf
    assert minimum_track_record(-R36) == np.inf
    with pytest.raises(ValueError, match="alpha"):
        minimum_track_record(R36, alpha=5.0)


@settings(deadline=None)
@given(st.floats(-0.5, 1.0), st.floats(-0.5, 1.0))
def test_a_higher_benchmark_is_less_probable(one, two):
    low, high = sorted((one, two))
    assert probabilistic_sharpe(R36, low) >= probabilistic_sharpe(R36, high)


@settings(deadline=None)
@given(st.floats(0.05, 0.5), st.floats(0.01, 0.2))
def test_track_record_is_where_the_probability_reaches_its_level(ratio, alpha):
    found = Moments(100, ratio, skew=-0.5, kurtosis=5.0)
    bars = minimum_track_record(found, alpha=alpha)
    error = np.sqrt(found.variance_factor)
    assert norm.cdf(ratio * np.sqrt(bars - 1.0) / error) == pytest.approx(1.0 - alpha, abs=1e-9)


def test_two_point_returns_are_certain():
    wins = np.array([1.0] * 8 + [-1.0] * 2)
    found = moments(wins)
    certain = Moments(10, 2.0 / found.skew, found.skew, 1.0 + found.skew**2)  # the variance factor is 0 here
    assert probabilistic_sharpe(certain, certain.sharpe - 0.1) == 1.0
    assert probabilistic_sharpe(certain, certain.sharpe) == 0.5
    assert probabilistic_sharpe(certain, certain.sharpe + 0.1) == 0.0
