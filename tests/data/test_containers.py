"""The same bars give the same digest whatever holds them, and their timestamps are read whatever their spelling."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data import DataError, load_bars

INDEX = pd.date_range("2019-12-27", periods=8, freq="D", tz="UTC", name="Date")


def sample(symbol="spy", start=10.0):
    close = start + np.array([0.1, 1 / 3, 0.7, 0.2, 1.9, 1.1, 1.30000001, 0.4])
    frame = pd.DataFrame({"Open": close - 0.01, "High": close + 0.5, "Low": close - 0.5, "Close": close}, index=INDEX)
    return frame.assign(Volume=np.arange(8) * 100.0, Ticker=symbol)


def one():
    return sample().drop(columns="Ticker")


@pytest.fixture(scope="module")
def digest():
    return load_bars(one(), symbols=("spy",)).sha256


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_with_any_delimiter(tmp_path, digest, delimiter):
    path = tmp_path / "spy.csv"
    one().to_csv(path, sep=delimiter)
    assert load_bars(path).sha256 == digest
    assert load_bars(str(path)).sha256 == digest


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_csv_in_any_encoding(tmp_path, digest, encoding, newline):
    path = tmp_path / "spy.txt"
    path.write_bytes(one().to_csv(lineterminator=newline).encode(encoding))
    assert load_bars(path).sha256 == digest


def test_gzip_and_parquet(tmp_path, digest):
    (tmp_path / "spy.csv.gz").write_bytes(gzip.compress(one().to_csv().encode()))
    one().to_parquet(tmp_path / "spy.parquet")
    one().reset_index().to_parquet(tmp_path / "spy.pq", index=False)
    for name in ("spy.csv.gz", "spy.parquet", "spy.pq"):
        assert load_bars(tmp_path / name).sha256 == digest


def test_column_names_of_any_case_and_spacing(digest):
    names = {"Open": " open ", "High": "HIGH", "Low": "<LOW>", "Close": "c", "Volume": "Vol."}
    assert load_bars(one().rename(columns=names), symbols=("spy",)).sha256 == digest


@pytest.mark.parametrize(
    "index",
    [
        INDEX.tz_localize(None),
        INDEX.tz_convert("America/New_York"),
        INDEX.as_unit("s"),
        INDEX.strftime("%Y-%m-%dT%H:%M:%SZ"),
        INDEX.strftime("%Y-%m-%d"),
        INDEX.strftime("%Y%m%d"),
        INDEX.strftime("%Y%m%d").astype(int),
        INDEX.as_unit("s").asi8,
        INDEX.as_unit("s").asi8.astype(float),
        INDEX.as_unit("ms").asi8,
        INDEX.as_unit("us").asi8,
        INDEX.as_unit("ns").asi8,
        INDEX.as_unit("ns").asi8.astype(str),
        INDEX.date,
        INDEX.tz_localize(None).to_period("D"),
        [stamp.isoformat() for stamp in INDEX.tz_convert("Asia/Tokyo")],
        [*INDEX.as_unit("ms").asi8[:4], *INDEX.as_unit("us").asi8[4:]],  # files that change unit half way exist
    ],
)
def test_timestamps_of_any_spelling(digest, index):
    frame = one().set_axis(pd.Index(index, name="Date"), axis=0)
    assert load_bars(frame, symbols=("spy",)).sha256 == digest
    assert load_bars(frame.reset_index(), symbols=("spy",)).sha256 == digest
    assert load_bars(frame.rename_axis("index").reset_index(names="Timestamp"), symbols=("spy",)).sha256 == digest


def test_nanoseconds_and_fractions_of_seconds_are_kept():
    text = pd.Series(["1577836800.25", "1577836800500000001", "2020-01-01T00:00:00.750000002Z"])
    frame = one().iloc[:3].reset_index(drop=True).assign(Date=text)
    loaded = load_bars(frame, symbols=("spy",)).frames["spy"]
    assert (loaded.index.as_unit("ns").asi8 - 1577836800 * 10**9).tolist() == [250000000, 500000001, 750000002]


def test_naive_timestamps_are_noted_and_zoned_ones_are_not():
    zoned = load_bars(one(), symbols=("spy",)).report.notes
    naive = load_bars(one().tz_localize(None), symbols=("spy",)).report.notes
    assert not any("time zone" in note for note in zoned)
    assert any(note.startswith("8 timestamps without a time zone") for note in naive)


@given(order=st.permutations(range(16)))
@settings(max_examples=15, deadline=None)
def test_row_order_does_not_matter(order):
    both = pd.concat([sample("A"), sample("B", 20.0)]).reset_index()
    shuffled = load_bars(both.iloc[list(order)])
    straight = load_bars(both)
    assert shuffled.sha256 == straight.sha256
    pd.testing.assert_frame_equal(shuffled.frames["B"], straight.frames["B"])


def test_long_format_interleaved_is_not_unsorted():
    both = pd.concat([sample("A"), sample("B", 20.0)]).sort_index(kind="stable")
    loaded = load_bars(both)
    assert loaded.report.unsorted == 0
    assert list(loaded.frames) == ["A", "B"]
    multi = both.set_index("Ticker", append=True)
    assert load_bars(multi).sha256 == loaded.sha256


def test_every_value_counts(digest):
    for column in ("Open", "High", "Low", "Close", "Volume"):
        changed = one()
        changed.loc[INDEX[3], column] = np.nextafter(changed.loc[INDEX[3], column], 100.0)
        assert load_bars(changed, symbols=("spy",)).sha256 != digest
    assert load_bars(one(), symbols=("other",)).sha256 != digest
    assert load_bars(one().shift(1, freq="s"), symbols=("spy",)).sha256 != digest


def test_numbers_are_read_as_python_reads_them(tmp_path):
    values = ["0.1", "4.186662803811", "123456789.12345678", "9007199254740993", "1e-7", "2.2250738585072014e-308"]
    rows = [f"2020-01-{day:02d},{value},{value},{value},{value}" for day, value in enumerate(values, 1)]
    path = tmp_path / "spy.csv"
    path.write_text("\n".join(["date,open,high,low,close", *rows]))
    assert load_bars(path).frames["spy"]["open"].tolist() == [float(value) for value in values]


def test_volume_may_be_absent():
    loaded = load_bars(one().drop(columns="Volume"), symbols=("spy",))
    assert loaded.frames["spy"]["volume"].isna().all()
    assert loaded.report.symbols["spy"].unknown_volume_share == 1.0
    assert any("no volume" in note for note in loaded.report.notes)


def test_the_source_frame_is_left_alone():
    frame = one().iloc[::-1]
    before = frame.copy(deep=True)
    loaded = load_bars(frame, symbols=("spy",)).frames["spy"]
    loaded.iloc[:, :] = 0.0
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    "stamp", ["99999999", "4133980800", "4133980800000000000", "99999999999999999999", "2150-01-01"]
)
def test_stamps_outside_1900_to_2100_are_refused(stamp):
    frame = one().reset_index(drop=True).assign(Date=[*INDEX.as_unit("s").asi8[:7].astype(str), stamp])
    with pytest.raises(DataError, match=r"row 7.*unreadable timestamp.*seconds, milliseconds"):
        load_bars(frame, symbols=("spy",))
    assert load_bars(frame, symbols=("spy",), on_bad="drop").report.rows_kept == 7
