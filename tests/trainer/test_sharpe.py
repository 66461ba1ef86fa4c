"""R36 is the monthly example series of jsharpe's README (MIT); the values were computed independently of our code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.sharpe import FLOOR, default_lags, hac_se, iqm, is_flat, sharpe

FIRST_HALF = [21, -14, 38, 6, -22, 41, 13, 29, -8, 34, 17, -11, 25, 9, 31, -19, 22, 14]
SECOND_HALF = [37, -6, 28, 11, 19, 33, 7, 24, -13, 36, 15, 27, 4, 32, -17, 23, 18, 30]
R36 = np.array(FIRST_HALF + SECOND_HALF) / 1000.0


def test_value_is_mean_over_sample_deviation_annualised():
    estimate = sharpe(R36, periods_per_year=1.0)
    assert estimate.value == pytest.approx(0.814962080680538, abs=1e-14)
    assert (estimate.status, estimate.n) == ("ok", 36)
    assert sharpe(R36, periods_per_year=12.0).value == pytest.approx(2.823111460, abs=1e-9)


@pytest.mark.parametrize(("lags", "se"), [(0, 0.216203339545), (3, 0.127080869535), (5, 0.122363290674)])
def test_hac_error_by_lag(lags, se):
    assert hac_se(R36, lags) == pytest.approx(se, abs=1e-9)


def test_without_lags_it_is_the_closed_form_of_mertens():
    ratio, z = R36.mean() / R36.std(), (R36 - R36.mean()) / R36.std()
    variance = 1.0 - (z**3).mean() * ratio + ((z**4).mean() - 1.0) / 4.0 * ratio**2
    assert hac_se(R36, lags=0) == pytest.approx(np.sqrt(variance / 36), rel=1e-13)


def test_default_lags_and_annualised_error():
    assert [default_lags(count) for count in (36, 100, 252, 1000, 3270, 10000)] == [5, 5, 5, 6, 8, 11]
    assert sharpe(R36, periods_per_year=12.0).se == pytest.approx(0.122363290674 * np.sqrt(12.0), abs=1e-10)


def test_positive_autocorrelation_widens_the_error():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal(4000)
    smooth = 0.06 + noise[1:] + 0.5 * noise[:-1]
    assert hac_se(smooth) > 1.15 * hac_se(smooth, lags=0)


def test_constant_returns_are_flat_and_not_huge():
    constant = np.full(252, 1e-4)  # its sd is 2.7e-20 in floating point: the naive ratio is 3.7e15
    compounded = np.diff(np.cumprod(np.full(253, 1.0 + 1e-4))) / np.cumprod(np.full(252, 1.0 + 1e-4))
    for series in (constant, compounded):
        assert is_flat(series)
        estimate = sharpe(series, periods_per_year=252.0)
        assert (estimate.value, estimate.se, estimate.status) == (0.0, 0.0, "flat")
    with pytest.raises(ValueError, match="do not vary"):
        hac_se(constant)


def test_statuses_in_their_order():
    zeros = np.zeros(100)
    assert sharpe(zeros, periods_per_year=252, traded=False).status == "no_trades"
    assert sharpe(zeros, periods_per_year=252).status == "flat"
    assert sharpe(R36[:19], periods_per_year=12).status == "short"
    assert sharpe([], periods_per_year=12).n == 0
    ruined = sharpe(zeros, periods_per_year=252, traded=False, bankrupt=True)
    assert (ruined.value, ruined.status) == (FLOOR, "bankrupt")
    wild = sharpe(R36, periods_per_year=252)
    assert wild.status == "implausible"
    assert wild.value == pytest.approx(0.814962080680538 * np.sqrt(252))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="1 of 3 values are not finite; the first is at 1"):
        sharpe([0.1, np.nan, 0.2], periods_per_year=252)
    with pytest.raises(ValueError, match="shape"):
        sharpe(np.zeros((3, 3)), periods_per_year=252)
    with pytest.raises(ValueError, match="periods_per_year"):
        sharpe(R36, periods_per_year=0.0)
    with pytest.raises(ValueError, match="no values"):
        iqm([])


@given(st.lists(st.floats(-0.5, 0.5), min_size=0, max_size=80), st.floats(0.1, 1e5), st.booleans())
def test_never_infinite_and_never_nan(returns, periods, traded):
    estimate = sharpe(returns, periods_per_year=periods, traded=traded)
    assert np.isfinite([estimate.value, estimate.se]).all()
    assert estimate.se >= 0.0


@given(st.floats(0.01, 100.0))
def test_scale_of_the_returns_does_not_matter(scale):
    reference = sharpe(R36, periods_per_year=12.0)
    scaled = sharpe(R36 * scale, periods_per_year=12.0)
    assert (scaled.value, scaled.se) == pytest.approx((reference.value, reference.se), rel=1e-12)


def test_iqm_vectors():
    first = [0.10, 0.40, 0.30, 0.20, 0.20, 0.60, 0.50, 0.80, 0.0, 0.30, 0.90, 0.10, 0.40, 0.50, 0.25, 0.70]
    second = [0.20, 0.50, 0.35, 0.20, 0.30, 0.55, 0.60, 0.90, 0.10, 0.35, 0.80, 0.30, 0.55, 0.45, 0.25, 0.75]
    off = [0.42, 0.91, 0.13, 0.77, 1.10, 0.65, 1.32, 0.88, 0.05, 0.51, 0.33, -0.20]
    assert iqm(first) == pytest.approx(0.35625)
    assert iqm(second) == pytest.approx(0.41875)
    assert iqm(off) == pytest.approx(0.5933333333)
    assert iqm([2.0]) == 2.0
