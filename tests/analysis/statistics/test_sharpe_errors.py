"""Vectors: Lo (2002), tables of the paper; R36 computed independently of our code, AR(1) also by jsharpe 0.6.3."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import R36
from scipy.stats import kurtosis, skew

from analysis.statistics import (
    Moments,
    aggregated_sharpe,
    aggregation_factor,
    ar1_se,
    hac_se,
    lo_se,
    mertens_se,
    moments,
    sharpe_errors,
)
from analysis.statistics.aggregation import first_autocorrelation

BARS = (12, 24, 36, 48, 60, 125, 250, 500)
LO_TABLE = {
    0.5: (0.306, 0.217, 0.177, 0.153, 0.137, 0.095, 0.067, 0.047),
    1.0: (0.354, 0.250, 0.204, 0.177, 0.158, 0.110, 0.077, 0.055),
    2.0: (0.500, 0.354, 0.289, 0.250, 0.224, 0.155, 0.110, 0.077),
    3.0: (0.677, 0.479, 0.391, 0.339, 0.303, 0.210, 0.148, 0.105),
}
BY_ACF = [-0.5690838963154617, 0.1936850174883811, -0.21150639643524516]
POPULATION_SHARPE = 0.8265224039154735  # of R36, ddof 0


def test_moments_of_the_reference_series():
    found = moments(R36)
    assert (R36.mean(), R36.std(ddof=1), R36.std()) == pytest.approx(
        (0.014833333333333334, 0.01820125584364206, 0.017946680287265756), abs=1e-15
    )
    assert found.sharpe == pytest.approx(0.814962080680538, abs=1e-14)
    assert (found.skew, found.kurtosis) == pytest.approx((-0.5806973545463087, 2.18757893480205), abs=1e-13)
    assert (skew(R36, bias=False), kurtosis(R36, fisher=False, bias=False)) == pytest.approx(
        (-0.6062562139995613, 2.2494783605781237), abs=1e-13
    )
    assert first_autocorrelation(R36) == pytest.approx(BY_ACF[0], abs=1e-13)


@pytest.mark.parametrize("ratio", LO_TABLE)
def test_lo_error_is_his_table(ratio):
    assert [lo_se(Moments(bars, ratio)) for bars in BARS] == pytest.approx(LO_TABLE[ratio], abs=5.1e-4)


def test_errors_of_the_reference_series():
    population = Moments(36, POPULATION_SHARPE, skew(R36), kurtosis(R36, fisher=False))
    assert lo_se(population) == pytest.approx(0.193043578762, abs=1e-9)
    assert mertens_se(population) == pytest.approx(0.216203339545, abs=1e-9)
    assert mertens_se(population) == pytest.approx(hac_se(R36, lags=0), rel=1e-12)


@pytest.mark.parametrize(
    ("rho", "se"), [(BY_ACF[0], 0.18173479339512086), (0.0, 0.21540871220713267), (0.2, 0.2541267875486082)]
)
def test_ar1_error_equals_that_of_jsharpe(rho, se):
    assert ar1_se(R36, rho) == pytest.approx(se, rel=1e-12)


def test_ar1_error_is_the_spread_that_a_simulation_shows():
    rng, rho, bars = np.random.default_rng(4), 0.3, 500
    noise = rng.standard_normal((3000, bars + 100))
    for t in range(1, bars + 100):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1.0 - rho * rho) * noise[:, t]
    returns = 0.1 + noise[:, 100:]
    spread = (returns.mean(axis=1) / returns.std(axis=1, ddof=1)).std()
    assert spread == pytest.approx(ar1_se(Moments(bars, 0.1), rho), rel=0.04)
    assert spread > 1.3 * lo_se(Moments(bars, 0.1))


@pytest.mark.parametrize(
    ("rho", "year_of_months"),
    [(-0.2, 4.1708), (-0.1, 3.7979), (0.0, 3.4641), (0.1, 3.1601), (0.2, 2.8788), (0.5, 2.1213), (0.9, 1.2070)],
)
def test_aggregation_of_twelve_months_is_the_table_of_lo(rho, year_of_months):
    assert aggregation_factor(12, rho) == pytest.approx(year_of_months, abs=5.1e-5)
    assert aggregation_factor(12, rho ** np.arange(1, 12)) == pytest.approx(aggregation_factor(12, rho), rel=1e-14)


@pytest.mark.parametrize(
    ("rho", "year_of_days"),
    [(-0.2, 19.4262), (0.0, 15.8745), (0.1, 14.3648), (0.2, 12.9722), (0.5, 9.1895), (0.9, 3.7123)],
)
def test_aggregation_of_252_days(rho, year_of_days):
    assert aggregation_factor(252, rho) == pytest.approx(year_of_days, abs=5.1e-5)


def test_negative_autocorrelation_raises_the_annual_ratio():
    # A library that takes |rho| instead (quantstats 0.0.86, smart_sharpe) says 1.5003 here, below sqrt(12) x SR.
    assert aggregation_factor(12, BY_ACF[0]) == pytest.approx(6.190746255, abs=1e-8)
    assert aggregated_sharpe(R36, 12) == pytest.approx(5.045223449, abs=1e-8)
    assert aggregated_sharpe(R36, 12) > np.sqrt(12.0) * moments(R36).sharpe == pytest.approx(2.823111460, abs=1e-8)


def test_aggregation_is_refused_where_the_variance_would_be_negative():
    assert 12 + 2 * np.dot([11, 10, 9], BY_ACF) == pytest.approx(-0.4532605, abs=1e-6)
    with pytest.raises(ValueError, match=r"variance of -0\.453 bars.*Bartlett"):
        aggregation_factor(12, BY_ACF)
    with pytest.raises(ValueError, match="between -1 and 1"):
        aggregation_factor(12, 1.0)
    with pytest.raises(ValueError, match="whole number"):
        aggregation_factor(2.5, 0.1)


@settings(deadline=None)
@given(st.floats(-0.99, 0.99), st.integers(1, 400))
def test_an_ar1_series_can_always_be_aggregated(rho, periods):
    factor = aggregation_factor(periods, rho)
    assert np.isfinite(factor)
    assert factor >= 1.0 - 1e-12  # never below that of bars that repeat one number
    iid = np.sqrt(periods)
    assert factor >= iid * (1 - 1e-12) if rho <= 0.0 else factor <= iid * (1 + 1e-12)


def test_pooled_windows_are_not_the_mean_of_windows():
    windows = [np.array([0.01, 0.02, 0.0, 0.01]), np.array([-0.03, 0.05, -0.01, 0.02])]
    assert moments(np.concatenate(windows)).sharpe == pytest.approx(0.371297, abs=1e-6)
    assert np.mean([moments(window).sharpe for window in windows]) == pytest.approx(0.719515, abs=1e-6)


def test_annual_ratio_in_a_per_bar_formula_is_thirteen_times_too_sure():
    assert lo_se(Moments(252, 1.0)) == pytest.approx(0.077, abs=5e-4)  # a published table's mistake
    assert np.sqrt(252) * lo_se(Moments(252, 1.0 / np.sqrt(252))) == pytest.approx(1.0010, abs=5e-5)
    z = np.random.default_rng(0).standard_normal(252)
    returns = (z - z.mean()) / z.std(ddof=1) + 1.0 / np.sqrt(252)
    found = sharpe_errors(returns, periods_per_year=252)
    assert found.value == pytest.approx(1.0)
    assert found.lo == pytest.approx(1.0010, abs=5e-5)
    assert [found.mertens, found.ar1, found.hac] == pytest.approx([1.0] * 3, abs=0.15)


def test_excess_kurtosis_is_refused_where_it_cannot_be_pearsons():
    with pytest.raises(ValueError, match="excess"):
        Moments(24, 0.4, skew=-2.448, kurtosis=10.164 - 3.0 - 0.2)
    with pytest.raises(ValueError, match="excess"):
        Moments(100, 0.1, kurtosis=0.0)
    assert Moments(1250, 0.16, skew=-3.0, kurtosis=10.0).variance_factor > 0.0  # the least kurtosis for this skew


def test_errors_cover_as_their_docstring_says():
    rng, bars, true = np.random.default_rng(8), 1000, 0.06
    noise = rng.standard_normal((600, bars))
    for t in range(1, bars):
        noise[:, t] = 0.2 * noise[:, t - 1] + np.sqrt(0.96) * noise[:, t]
    errors = [sharpe_errors(series, periods_per_year=1.0) for series in true + noise]
    off = np.array([abs(found.value - true) for found in errors])
    cover = {
        name: np.mean(off < 1.96 * np.array([getattr(found, name) for found in errors])) for name in ("mertens", "hac")
    }
    assert cover["hac"] == pytest.approx(0.943, abs=0.03)
    assert cover["mertens"] == pytest.approx(0.891, abs=0.035)


@pytest.mark.parametrize("function", [moments, lo_se, mertens_se, lambda r: ar1_se(r, 0.1)])
def test_returns_that_do_not_vary_are_refused(function):
    with pytest.raises(ValueError, match="do not vary"):
        function(np.full(252, 1e-4))


def test_an_impossible_autocorrelation_is_refused():
    with pytest.raises(ValueError, match="between -1 and 1"):
        ar1_se(R36, 1.0)
    with pytest.raises(ValueError, match="negative variance"):
        ar1_se(Moments(100, 0.335, skew=3.0, kurtosis=10.0), -0.9)
