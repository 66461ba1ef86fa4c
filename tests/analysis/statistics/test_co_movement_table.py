"""What R^2 can see and what it cannot: 30 trials x 60 epochs, AR(1) 0.8, the gem made from an existing signal."""

import numpy as np
import pytest
from scipy.stats import rankdata

from analysis.redundancy import grouped_r2


def autoregressive(rng, units=30, epochs=60, rho=0.8):
    noise = rng.standard_normal((units, epochs))
    for t in range(1, epochs):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1.0 - rho * rho) * noise[:, t]
    return noise


def ranks(values):
    return rankdata((values - values.mean(axis=0)).ravel()).reshape(values.shape)


FIRST, SECOND = autoregressive(np.random.default_rng(11)), autoregressive(np.random.default_rng(12))


@pytest.mark.parametrize(
    ("gem", "raw", "rank"),
    [
        (np.tanh(2.0 * FIRST), 0.83, 0.95),
        (FIRST * SECOND, 0.0, 0.0),  # no monotone copy, so neither sees it
        (FIRST**2, 0.0, 0.0),
        (autoregressive(np.random.default_rng(13)), 0.0, 0.0),
    ],
    ids=["tanh", "product", "square", "independent"],
)
def test_raw_and_rank_r2(gem, raw, rank):
    assert grouped_r2(gem, [FIRST])[0] == pytest.approx(raw, abs=0.04)
    assert grouped_r2(ranks(gem), [ranks(FIRST)])[0] == pytest.approx(rank, abs=0.04)


def test_a_trend_in_both_is_no_redundancy_though_the_naive_r2_says_so():
    trend = np.linspace(0.0, 4.0, 60)
    gem, signal = FIRST + trend, SECOND + trend
    assert np.corrcoef(gem.ravel(), signal.ravel())[0, 1] ** 2 > 0.25
    assert grouped_r2(gem, [signal])[0] == pytest.approx(-0.008, abs=0.03)
