"""The bundled bars: adjustment against literal vectors, the report, and the licence beside the file."""

import gzip
import hashlib

import numpy as np
import pandas as pd
import pytest

from trainer.data import BUNDLED, DataError, load_bars


@pytest.fixture(scope="module")
def bars():
    return load_bars("us-daily")


@pytest.fixture(scope="module")
def raw():
    return load_bars("us-daily", adjust="none")


def change(bars, symbol, day):
    return bars.frames[symbol]["close"].pct_change()[pd.Timestamp(day, tz="UTC")]


@pytest.mark.parametrize(
    ("symbol", "day", "close", "adjusted"),
    [
        ("AAPL", "2005-02-25", 88.99, 5.718228),
        ("AAPL", "2005-02-28", 44.86, 5.765135),
        ("MSFT", "2004-11-12", 29.97, 20.185105),
        ("MSFT", "2004-11-15", 27.39, 20.521860),
    ],
)
def test_close_is_adjusted_to_the_published_value(bars, raw, symbol, day, close, adjusted):
    stamp = pd.Timestamp(day, tz="UTC")
    assert raw.frames[symbol]["close"][stamp] == close
    assert bars.frames[symbol]["close"][stamp] == pytest.approx(adjusted, abs=5e-7)


@pytest.mark.parametrize(
    ("symbol", "day", "raw_return", "adjusted_return"),
    [
        ("AAPL", "2005-02-28", -0.4959, 0.0082),  # 2:1 split
        ("MSFT", "2004-11-15", -0.0861, 0.0167),  # special dividend of 3 dollars
        ("AAPL", "2000-09-29", -0.5187, -0.5187),  # a profit warning: a real loss, not a split
    ],
)
def test_events_disappear_and_real_losses_stay(bars, raw, symbol, day, raw_return, adjusted_return):
    assert change(raw, symbol, day) == pytest.approx(raw_return, abs=5e-5)
    assert change(bars, symbol, day) == pytest.approx(adjusted_return, abs=5e-5)


def test_one_factor_scales_all_four_prices(bars, raw):
    prices = ["open", "high", "low", "close"]
    factors = bars.frames["IBM"][prices] / raw.frames["IBM"][prices]
    assert (factors.sub(factors["close"], axis=0).abs().to_numpy() < 1e-12).all()
    pd.testing.assert_series_equal(bars.frames["IBM"]["volume"], raw.frames["IBM"]["volume"])


@pytest.mark.parametrize(("symbol", "sharpe"), [("AAPL", 0.678), ("IBM", 0.378), ("MSFT", 0.117)])
def test_buy_and_hold_sharpe(bars, symbol, sharpe):
    returns = bars.frames[symbol]["close"].pct_change().dropna()
    annual = returns.mean() / returns.std() * np.sqrt(bars.periods_per_year)
    assert annual == pytest.approx(sharpe, abs=6e-4)


def test_frames_are_float64_in_utc(bars):
    assert list(bars.frames) == ["AAPL", "IBM", "MSFT"]
    for frame in bars.frames.values():
        assert list(frame.columns) == ["open", "high", "low", "close", "volume"]
        assert (frame.dtypes == np.float64).all()
        assert str(frame.index.tz) == "UTC"
        assert frame.index.is_monotonic_increasing
        assert frame.index.is_unique
        assert len(frame) == 3270


def test_report_counts_events_and_names_the_largest_move(bars):
    report = bars.report
    assert (report.rows_read, report.rows_kept, report.dropped, report.unsorted) == (9810, 9810, {}, 0)
    assert {name: one.adjustments for name, one in report.symbols.items()} == {"AAPL": 5, "IBM": 52, "MSFT": 38}
    assert report.symbols["AAPL"].largest_return_at[:10] == "2000-09-29"
    assert report.symbols["AAPL"].median_step_seconds == 86_400
    assert report.symbols["AAPL"].longest_gap_days == 7  # the week of 2001-09-11
    assert any("read as UTC" in note for note in report.notes)
    text = "\n".join(report.lines())
    assert "52 price adjustments" in text
    assert report.sha256[:16] in text
    assert report.to_dict()["symbols"]["IBM"]["bars"] == 3270


def test_periods_per_year_counts_the_bars_that_are_there(bars):
    assert bars.periods_per_year == pytest.approx(3269 / (4748 / 365.25), rel=1e-12)


def test_gaps_are_counted_by_the_given_length(bars):
    assert bars.report.symbols["IBM"].gaps == 0
    assert load_bars("us-daily", max_gap_days=4.5).report.symbols["IBM"].gaps >= 1


def test_symbols_select_and_order(bars):
    chosen = load_bars("us-daily", symbols=("MSFT", "AAPL"))
    assert list(chosen.frames) == ["MSFT", "AAPL"]
    pd.testing.assert_frame_equal(chosen.frames["AAPL"], bars.frames["AAPL"])
    assert chosen.report.dropped == {"a symbol not asked for": 3270}
    assert chosen.sha256 != bars.sha256


def test_the_digest_of_the_bundled_bars_does_not_change(bars):
    assert bars.sha256 == "23c9df2a7b0fb2e1f32ec953fad7d3a046898c5200bee59eea85da69bb5aeee4"


def test_licence_names_the_file_it_stands_beside():
    path = BUNDLED["us-daily"]
    licence = (path.parent / "LICENSE.txt").read_text()
    assert hashlib.sha256(path.read_bytes()).hexdigest() in licence
    assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() in licence
    assert "Survivorship" in licence


@pytest.mark.parametrize(
    "option", [{"adjust": "yes"}, {"on_bad": "ignore"}, {"on_duplicate": "drop"}], ids=lambda option: next(iter(option))
)
def test_unknown_option(option):
    name = next(iter(option))
    with pytest.raises(DataError, match=f"{name}='.*is none of"):
        load_bars("us-daily", **option)
