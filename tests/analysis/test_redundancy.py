import numpy as np
import pandas as pd
import pytest

from analysis.redundancy import CoMovement, Panel, co_movement, demean, grouped_r2, panels
from analysis.rules import VerdictRules
from analysis.tables import evidence_lines
from analysis.verdict import Verdict

UNITS, EPOCHS = 30, 60


def autoregressive(rng, rho=0.8):
    noise = rng.standard_normal((UNITS, EPOCHS))
    for t in range(1, EPOCHS):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return noise


def alone(gem, signal):
    """Every member is a unit."""
    return Panel(gem, signal, np.arange(len(gem)))


@pytest.fixture(scope="module")
def signal():
    return autoregressive(np.random.default_rng(1))


def test_a_linear_copy_is_explained(signal):
    copy = 0.95 * signal + np.sqrt(1 - 0.95**2) * autoregressive(np.random.default_rng(2))
    value, se = grouped_r2(copy, [signal])
    assert value == pytest.approx(0.90, abs=0.03)
    assert 0.0 < se < 0.02


def test_only_ranks_see_a_monotone_copy(signal):
    found = co_movement(alone(np.exp(signal), signal), "feature")
    assert found.basis == "rank"
    assert found.value > 0.85
    assert grouped_r2(np.exp(signal), [signal])[0] < 0.75


def test_a_common_trend_is_no_redundancy(signal):
    trend = np.linspace(0.0, 20.0, EPOCHS)
    other = autoregressive(np.random.default_rng(3))
    assert np.corrcoef((signal + trend).ravel(), (other + trend).ravel())[0, 1] > 0.9
    found = co_movement(alone(other + trend, signal + trend), "feature")
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
    constant = co_movement(alone(signal, np.ones_like(signal)), "feature")
    assert constant.untested == "the feature does not vary"
    assert np.isnan(constant.value)
    assert co_movement(alone(signal[:2], signal[:2]), "feature").untested == "needs 3 configurations"
    assert co_movement(alone(signal[:, :1], signal[:, :1]), "feature").untested.startswith("needs two epochs")


def test_only_epochs_that_every_configuration_has_are_used(signal):
    holed, other = signal.copy(), autoregressive(np.random.default_rng(4))
    holed[3, 5] = np.nan
    kept = np.delete(np.arange(EPOCHS), 5)
    found, expected = (co_movement(alone(a, b), "f") for a, b in ((holed, other), (signal[:, kept], other[:, kept])))
    assert found == expected


def frame(**columns):
    return pd.DataFrame({"trial": "t", "seed": 0, "fold": 0} | columns)


def test_panels_follow_the_order_of_the_configurations_and_keep_members_apart():
    rows = frame(config=["b", "b", "a"], seed=[0, 1, 0], epoch=1, size=[1.0, 3.0, 5.0], f=[0.0, 2.0, 7.0])
    found = panels(rows, ["c", "b", "a"], "size", "f")
    assert found.unit.tolist() == [1, 1, 2]
    assert (found.gem[:, 0].tolist(), found.signal[:, 0].tolist()) == ([1.0, 3.0, 5.0], [0.0, 2.0, 7.0])
    assert found.first(2).unit.tolist() == [1, 1]
    assert [side[:, 0].tolist() for side in found.by_unit()] == [[2.0, 5.0], [1.0, 7.0]]


@pytest.mark.parametrize("shape", [np.exp, lambda x: 1.1 + np.tanh(x), lambda x: x**3], ids=["exp", "tanh", "cube"])
def test_a_monotone_copy_is_seen_member_by_member_beneath_a_common_trend(shape):
    rng = np.random.default_rng(5)
    walk = autoregressive(rng)[:, :20] + 0.5 * rng.standard_normal((UNITS, 1)) + 2.0 * np.arange(20) / 20
    found = co_movement(Panel(shape(walk), walk, np.repeat(np.arange(6), 5)), "feature")
    assert (found.units, found.basis) == (6, "rank")
    assert found.value == pytest.approx(1.0)


def test_members_of_a_unit_are_left_out_together():
    """Copies of one member would otherwise explain it."""
    walk, noise = (autoregressive(np.random.default_rng(seed))[:6, :20] for seed in (6, 7))
    twice = lambda values: np.repeat(values, 4, axis=0)
    one, four = grouped_r2(noise, [walk]), grouped_r2(twice(noise), [twice(walk)], np.repeat(np.arange(6), 4))
    assert four == pytest.approx(one)
    assert grouped_r2(twice(noise), [twice(walk)])[1] < 0.75 * one[1]  # as if each were a unit
