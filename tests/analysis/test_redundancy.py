import numpy as np
import pandas as pd
import pytest

from analysis.redundancy import CoMovement, co_movement, demean, grouped_r2, panels
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


def test_a_linear_copy_is_explained(signal):
    copy = 0.95 * signal + np.sqrt(1 - 0.95**2) * autoregressive(np.random.default_rng(2))
    value, se = grouped_r2(copy, [signal])
    assert value == pytest.approx(0.90, abs=0.03)
    assert 0.0 < se < 0.02


def test_only_ranks_see_a_monotone_copy(signal):
    found = co_movement(np.exp(signal), signal, "feature")
    assert found.basis == "rank"
    assert found.value > 0.85
    assert grouped_r2(np.exp(signal), [signal])[0] < 0.75


def test_a_common_trend_is_no_redundancy(signal):
    trend = np.linspace(0.0, 20.0, EPOCHS)
    other = autoregressive(np.random.default_rng(3))
    assert np.corrcoef((signal + trend).ravel(), (other + trend).ravel())[0, 1] > 0.9
    found = co_movement(other + trend, signal + trend, "feature")
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
    constant = co_movement(signal, np.ones_like(signal), "feature")
    assert constant.untested == "the feature does not vary"
    assert np.isnan(constant.value)
    assert co_movement(signal[:2], signal[:2], "feature").untested == "needs 3 configurations"
    assert co_movement(signal[:, :1], signal[:, :1], "feature").untested.startswith("needs two epochs")


def test_only_epochs_that_every_configuration_has_are_used(signal):
    holed, other = signal.copy(), autoregressive(np.random.default_rng(4))
    holed[3, 5] = np.nan
    kept = np.delete(np.arange(EPOCHS), 5)
    found, expected = (co_movement(a, b, "f") for a, b in ((holed, other), (signal[:, kept], other[:, kept])))
    assert found == expected


def test_panels_follow_the_order_of_the_configurations_and_average_their_members():
    rows = pd.DataFrame({"config": ["b", "b", "a"], "epoch": [1, 1, 1], "size": [1.0, 3.0, 5.0], "f": [0.0, 0.0, 7.0]})
    gem, feature = panels(rows, ["b", "a", "c"], "size", "f")
    assert gem[:, 0].tolist()[:2] == [2.0, 5.0]
    assert np.isnan(gem[2, 0])
    assert feature[1, 0] == 7.0
