"""Features: no look-ahead, no dependence on units, unit scale, defined on dull series too."""

import numpy as np
import pandas as pd
import pytest

from trainer.data import CLIP, FEATURES, WARM_UP, compute_features, load_bars

VOLUME_FEATURES = ("volume_ratio", "on_balance_volume_20", "money_flow_20")


def column(table, name):
    return table[WARM_UP:, FEATURES.index(name)]


@pytest.fixture(scope="module")
def frame():
    return load_bars("us-daily", symbols=("AAPL",)).frames["AAPL"]


@pytest.fixture(scope="module")
def table(frame):
    return compute_features(frame)


def flat(bars=400, volume=100.0):
    index = pd.date_range("2020-01-01", periods=bars, tz="UTC")
    return pd.DataFrame({"open": 5.0, "high": 5.0, "low": 5.0, "close": 5.0, "volume": volume}, index=index)


def test_shape_names_and_warm_up(table, frame):
    assert len(FEATURES) == len(set(FEATURES)) == 25
    assert table.shape == (len(frame), 25)
    assert table.dtype == np.float64
    assert np.isnan(table[:WARM_UP]).all()
    assert np.isfinite(table[WARM_UP:]).all()
    assert np.abs(table[WARM_UP:]).max() <= CLIP
    assert np.isnan(compute_features(frame.iloc[:50])).all()


def test_truncation_changes_no_bit(table, frame):
    cuts = [WARM_UP + 1, WARM_UP + 2, 255, 256, 257, *np.random.default_rng(0).integers(WARM_UP, 3270, 40)]
    for cut in cuts:
        assert compute_features(frame.iloc[:cut]).tobytes() == table[:cut].tobytes(), (
            f"a feature looks beyond bar {cut}"
        )


def test_a_change_of_the_future_changes_no_past_bit(table, frame):
    changed = frame.copy()
    changed.iloc[2000:] *= 7.0
    assert compute_features(changed)[:2000].tobytes() == table[:2000].tobytes()
    assert not np.array_equal(compute_features(changed)[2000], table[2000])


def test_units_of_price_and_volume_do_not_matter(table, frame):
    scaled = frame.mul({"open": 1000, "high": 1000, "low": 1000, "close": 1000, "volume": 1e-6})
    np.testing.assert_allclose(compute_features(scaled)[WARM_UP:], table[WARM_UP:], atol=1e-6)


def test_unit_scale_on_the_bundled_bars():
    stacked = np.concatenate([compute_features(one)[WARM_UP:] for one in load_bars("us-daily").frames.values()])
    spread = stacked.std(axis=0)
    assert spread.min() > 0.5
    assert spread.max() < 1.5
    assert np.abs(stacked.mean(axis=0)).max() < 1.25
    assert (np.abs(stacked) >= CLIP).mean(axis=0).max() < 0.01


def test_no_two_features_say_the_same(table):
    correlation = np.corrcoef(table[WARM_UP:].T) - np.eye(25)
    assert np.abs(correlation).max() < 0.97


def test_returns_and_locations_by_hand(table, frame):
    close, row = np.log(frame["close"].to_numpy()), 1500
    returns = np.diff(close)[:row][::-1]  # newest first: bar `row`, then the bars before it
    weights = 0.94 ** np.arange(row - 1)
    before = np.sqrt((weights * returns[1:] ** 2).sum() / weights.sum())
    assert table[row, FEATURES.index("return_1")] == pytest.approx(returns[0] / before, rel=1e-9)
    window = frame.iloc[row - 13 : row + 1]
    low, high = np.log(window["low"].min()), np.log(window["high"].max())
    expected = 1.5 * (2 * (close[row] - low) / (high - low) - 1)
    assert table[row, FEATURES.index("stochastic_14")] == pytest.approx(expected, rel=1e-9)


def test_macd_has_unit_variance_on_a_random_walk():
    steps = np.random.default_rng(3).normal(scale=0.01, size=60_000)
    close = 100 * np.exp(np.cumsum(steps) - np.linspace(0, steps.sum(), len(steps)))
    bars = pd.DataFrame({"open": close, "high": close, "low": close, "close": close, "volume": 1.0})
    walked = compute_features(bars)
    for name in ("macd_12_26", "macd_32_96", "return_21", "autocorrelation"):
        assert column(walked, name).std() == pytest.approx(1.0, abs=0.12)


def test_a_mirrored_market_mirrors_the_direction(frame):
    mirrored = frame.copy()
    mirrored[["open", "close"]] = 1 / frame[["open", "close"]]
    mirrored["high"], mirrored["low"] = 1 / frame["low"], 1 / frame["high"]
    straight, turned = compute_features(frame), compute_features(mirrored)
    odd = ["return_1", "return_63", "overnight_return", "close_location", "macd_12_26", "rsi_14", "bollinger_20"]
    odd += ["donchian_55", "on_balance_volume_20", "money_flow_20"]
    for name in odd:
        np.testing.assert_allclose(column(turned, name), -column(straight, name), atol=1e-7)
    for name in ("range_ratio", "volatility_ratio", "efficiency_ratio_10", "autocorrelation", "volume_ratio"):
        np.testing.assert_allclose(column(turned, name), column(straight, name), atol=1e-7)
    np.testing.assert_allclose(column(turned, "upper_shadow"), column(straight, "lower_shadow"), atol=1e-7)


@pytest.mark.parametrize("volume", [100.0, 0.0, np.nan])
def test_a_series_that_stands_still_gives_zeros(volume):
    assert (compute_features(flat(volume=volume))[WARM_UP:] == 0.0).all()


def test_unknown_volume_silences_only_volume(table, frame):
    silent = compute_features(frame.assign(volume=np.nan))
    for name in FEATURES:
        if name in VOLUME_FEATURES:
            assert (column(silent, name) == 0).all()
        else:
            assert np.array_equal(column(silent, name), column(table, name))


def test_a_jump_out_of_a_still_series_is_clipped():
    bars = flat()
    bars.iloc[300:, :4] *= 2.0
    table = compute_features(bars)
    assert column(table, "return_1")[300 - WARM_UP] == CLIP
    assert np.isfinite(table[WARM_UP:]).all()
