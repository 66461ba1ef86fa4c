"""The stacked table: aligned, finite, linked only where an episode may go on."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from trainer.config import DataConfig, FoldConfig
from trainer.data import FEATURES, WARM_UP, Bars, DataError, compute_features, load_bars, market_table


@pytest.fixture(scope="module")
def bars():
    return load_bars("us-daily")


@pytest.fixture(scope="module")
def table(bars):
    return market_table(bars, DataConfig(), purge=4)


def test_shapes_and_types(table):
    rows = 3 * (3270 - WARM_UP)
    assert table.symbols == ("AAPL", "IBM", "MSFT")
    assert table.features.shape == (rows, len(FEATURES))
    expected = {"features": "f4", "open": "f8", "close": "f8", "timestamp": "i8", "position": "i8", "symbol": "i8"}
    expected |= {"years": "f8", "linked": "?"}
    for name, kind in expected.items():
        column = getattr(table, name)
        assert column.dtype == np.dtype(kind)
        assert len(column) == rows
    assert len(table.timeline) == 3270 - WARM_UP


def test_rows_are_the_bars_and_their_features(bars, table):
    frame = bars.frames["IBM"]
    start, stop = np.searchsorted(table.symbol, [1, 2])
    assert table.close[start:stop].tolist() == frame["close"].iloc[WARM_UP:].tolist()
    assert table.open[start:stop].tolist() == frame["open"].iloc[WARM_UP:].tolist()
    assert np.array_equal(table.features[start:stop], compute_features(frame)[WARM_UP:].astype(np.float32))
    assert (table.timeline[table.position] == pd.DatetimeIndex(table.timestamp, tz="UTC")).all()


def test_years_and_links(table):
    last = np.flatnonzero(np.diff(table.symbol, append=99))
    assert len(last) == 3
    assert (table.years[last] == 0).all()
    assert not table.linked[last].any()
    inner = np.setdiff1d(np.arange(len(table.years)), last)
    assert table.linked[inner].all()
    np.testing.assert_allclose(table.years[inner] * 365.25 * 86_400e9, np.diff(table.timestamp)[inner], rtol=1e-12)


def test_long_steps_are_not_linked(bars):
    table = market_table(bars, DataConfig(max_gap_days=4.5), purge=4)
    broken = np.flatnonzero(~table.linked)
    long = np.flatnonzero(table.years * 365.25 > 4.5)
    assert len(long) > 0
    assert set(long) <= set(broken)
    assert len(broken) == len(long) + 3


def test_default_spans(table):
    assert [{name: len(span) for name, span in fold.spans.items()} for fold in table.folds] == [
        {"train": 1056, "validation": 314, "judge": 471},
        {"train": 1859, "validation": 314, "judge": 471},
    ]
    assert (table.holdout.start, table.holdout.stop) == (2671, 3142)


def test_rows_of_a_span(table):
    for index, fold in ((0, table.folds[0]), (2, table.folds[1])):
        span = fold.spans["judge"]
        start, stop = table.rows(index, span)
        assert (table.symbol[start:stop] == index).all()
        assert table.position[start:stop].tolist() == list(range(span.start, span.stop))


def test_symbols_with_different_calendars_share_the_timeline(bars):
    gone = bars.frames["IBM"].drop(bars.frames["IBM"].index[1000:1010])
    late = bars.frames["MSFT"].iloc[500:]
    frames = {"AAPL": bars.frames["AAPL"], "IBM": gone, "MSFT": late}
    table = market_table(Bars(frames, bars.report), DataConfig(max_gap_days=5), purge=4)
    assert len(table.timeline) == 3270 - WARM_UP
    span = dataclasses.replace(table.holdout, start=0, stop=len(table.timeline))
    counts = [stop - start for start, stop in (table.rows(index, span) for index in range(3))]
    assert counts == [3142, 3132, 2642]
    start, _ = table.rows(1, span)
    hole = start + 1000 - WARM_UP - 1
    assert not table.linked[hole]
    assert table.position[hole + 1] - table.position[hole] == 11
    assert table.position[table.rows(2, span)[0]] == 500


def test_symbol_without_bars_in_a_span(bars):
    frames = {**bars.frames, "LATE": bars.frames["IBM"].iloc[2000:]}
    with pytest.raises(DataError, match=r"LATE has 0 bars in the train span of fold 0 .*data.symbols"):
        market_table(Bars(frames, bars.report), DataConfig(), purge=4)


def test_symbol_too_short_to_warm_up(bars):
    frames = {"AAPL": bars.frames["AAPL"].iloc[: WARM_UP + 1]}
    with pytest.raises(DataError, match=f"AAPL has {WARM_UP + 1} bars"):
        market_table(Bars(frames, bars.report), DataConfig(), purge=4)


def test_a_value_that_is_not_finite_is_named(bars):
    frame = bars.frames["AAPL"].copy()
    frame.iloc[1000, frame.columns.get_loc("open")] = np.nan
    with pytest.raises(DataError, match=r"AAPL 2004-02-25 .*overnight_return"):
        market_table(Bars({"AAPL": frame}, bars.report), DataConfig(), purge=4)


def test_identity_and_folds_follow_the_configuration(bars, table):
    assert table.sha256 == bars.sha256
    assert table.report == bars.report.to_dict()
    assert table.periods_per_year == bars.periods_per_year
    assert len(market_table(bars, DataConfig(folds=FoldConfig(count=3)), purge=4).folds) == 3


def test_prices_that_never_move_are_refused(bars):
    still = {name: frame.assign(open=5.0, high=5.0, low=5.0, close=5.0) for name, frame in bars.frames.items()}
    with pytest.raises(DataError, match=r"no price moves between .* fold 0"):
        market_table(dataclasses.replace(bars, frames=still), DataConfig(), purge=3)
