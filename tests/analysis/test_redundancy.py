import numpy as np
import pandas as pd
import pytest

from analysis.redundancy import CoMovement, co_movement, demean, grouped_r2
from analysis.rules import VerdictRules
from analysis.tables import evidence_lines
from analysis.verdict import Verdict

UNITS, EPOCHS = 30, 60


def autoregressive(rng, rho=0.8):
    noise = rng.standard_normal((UNITS, EPOCHS))
    for t in range(1, EPOCHS):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return noise


@pytest.fixture(scope="module")
def signal():
    return autoregressive(np.random.default_rng(1))


def panel(gem, feature):
    index = pd.MultiIndex.from_product([range(UNITS), range(EPOCHS)], names=["config", "epoch"])
    return pd.DataFrame({"size": gem.ravel(), "feature": feature.ravel()}, index=index).reset_index()


def test_a_linear_copy_is_explained(signal):
    copy = 0.95 * signal + np.sqrt(1 - 0.95**2) * autoregressive(np.random.default_rng(2))
    value, se = grouped_r2(copy, [signal])
    assert value == pytest.approx(0.90, abs=0.03)
    assert 0.0 < se < 0.02


def test_only_ranks_see_a_monotone_copy(signal):
    found = co_movement(panel(np.exp(signal), signal), "size", "feature")
    assert found.basis == "rank"
    assert found.value > 0.85
    assert grouped_r2(np.exp(signal), [signal])[0] < 0.75


def test_a_common_trend_is_no_redundancy(signal):
    trend = np.linspace(0.0, 20.0, EPOCHS)
    other = autoregressive(np.random.default_rng(3))
    assert np.corrcoef((signal + trend).ravel(), (other + trend).ravel())[0, 1] > 0.9
    found = co_movement(panel(other + trend, signal + trend), "size", "feature")
    assert abs(found.value) < 0.05


def test_demeaning_removes_both_means(signal):
    rest = demean(signal + np.arange(UNITS)[:, None] + np.arange(EPOCHS))
    assert np.abs(rest.mean(axis=0)).max() < 1e-12
    assert np.abs(rest.mean(axis=1)).max() < 1e-12


@pytest.mark.parametrize("limit", [0.5, 0.81, 0.95])
def test_the_rule_for_redundancy_is_printed_beside_the_r2_and_decides_the_words(limit):
    found = CoMovement("spectral_norm", 0.90, 0.02, "rank", 30)
    verdict = Verdict(gem="g", label="MORE TRIALS", grade="candidate", reason="", n=30, redundancy=(found,))
    line = " ".join(evidence_lines(verdict, VerdictRules(redundant_r2=limit)))
    assert "moves with spectral_norm: R2 +0.90" in line
    assert (f">= {limit:g}: would be called redundant" in line) == (limit <= 0.90)
    assert (f"< {limit:g}: not redundant" in line) == (limit > 0.90)


def test_what_cannot_be_tested_says_why(signal):
    constant = co_movement(panel(signal, np.ones_like(signal)), "size", "feature")
    assert constant.untested == "the feature does not vary"
    assert np.isnan(constant.value)
    rows = panel(signal, signal)
    assert co_movement(rows[rows["config"] < 2], "size", "feature").untested == "needs 3 configurations"
    assert co_movement(rows[rows["epoch"] == 0], "size", "feature").untested.startswith("needs two epochs")
