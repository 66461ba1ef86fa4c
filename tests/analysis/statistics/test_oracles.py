"""Other libraries on the same data. They are no dependency: `pip install skfolio arch` to run these."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_series import R36

from analysis.statistics import mertens_se, moments, probabilistic_sharpe, selection_threshold

pytestmark = pytest.mark.slow


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10_000), st.integers(30, 500), st.floats(-0.2, 0.4))
def test_probabilistic_and_deflated_sharpe_are_those_of_skfolio(seed, bars, benchmark):
    measures = pytest.importorskip("skfolio.measures")
    rng = np.random.default_rng(seed)
    returns, trials = 0.05 + rng.standard_t(5, bars), 0.1 * rng.standard_normal(20)
    theirs = measures.probabilistic_sharpe_ratio(returns, benchmark_sharpe_ratio=benchmark)
    assert probabilistic_sharpe(returns, benchmark) == pytest.approx(theirs, abs=1e-12)
    threshold = selection_threshold(trials.var(ddof=1), 20, exact=False)
    theirs = measures.deflated_sharpe_ratio(returns, trials)
    assert probabilistic_sharpe(returns, threshold) == pytest.approx(theirs, abs=1e-12)


def test_reference_series_in_skfolio():
    measures = pytest.importorskip("skfolio.measures")
    assert measures.probabilistic_sharpe_ratio(R36) == pytest.approx(probabilistic_sharpe(R36), abs=1e-14)


def test_twenty_years_of_the_sp500():
    sp500 = pytest.importorskip("arch.data.sp500")
    returns = np.diff(np.log(sp500.load()["Adj Close"].to_numpy(float)))
    assert len(returns) == 5030
    assert moments(returns).sharpe * np.sqrt(252) == pytest.approx(0.1870654247754839, abs=1e-13)
    assert mertens_se(returns) * np.sqrt(252) == pytest.approx(0.22413809750889016, abs=1e-13)
