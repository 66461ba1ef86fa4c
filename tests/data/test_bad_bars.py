"""Bad input: one error that names the place and the way out, or the repair that an option asks for."""

import gzip

import pandas as pd
import pytest

from trainer.data import DataError, load_bars

GOOD = """Date,Open,High,Low,Close,Volume
2020-01-02,10,12,9,11,100
2020-01-03,11,13,10,12,110
2020-01-06,12,14,11,13,120
"""


@pytest.fixture
def spy(tmp_path):
    """Writes `text` as spy.csv and gives the path."""

    def write(text):
        path = tmp_path / "spy.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refusal(source, **options):
    with pytest.raises(DataError) as caught:
        load_bars(source, **options)
    return str(caught.value)


BAD_ROWS = {
    "2020-01-07,,12,9,11,100": "no open",
    "2020-01-07,null,null,null,null,null": "no open",
    "2020-01-07,10,12,9,--,100": "a close that is not a number",
    "2020-01-07,10,inf,9,11,100": "an infinite price",
    "2020-01-07,10,12,nan,11,100": "no low",
    "2020-01-07,10,12,0,11,100": "a price that is not positive",
    "2020-01-07,-10,12,-11,11,100": "a price that is not positive",
    "2020-01-07,10,10.5,9,11,100": "a high below the open, low or close",
    "2020-01-07,10,12,10.5,11,100": "a low above the open or close",
    "2020-01-07,10,12,9,11,-1": "a negative or infinite volume",
    "2020-01-07,10,12,9,11,many": "a volume that is not a number",
    "07.01.2020,10,12,9,11,100": "an unreadable timestamp",
    "Total,21": "an unreadable timestamp",
    "2020-13-45,10,12,9,11,100": "an unreadable timestamp",
}


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS.items(), ids=list(BAD_ROWS))
def test_bad_row_is_refused_by_line_and_dropped_on_request(spy, row, reason):
    path = spy(GOOD + row + "\n")
    message = refusal(path)
    assert message.startswith("spy.csv line 5, spy")
    assert reason in message
    assert 'on_bad="drop"' in message
    loaded = load_bars(path, on_bad="drop")
    assert loaded.report.dropped == {reason: 1}
    assert loaded.sha256 == load_bars(spy(GOOD)).sha256


def test_refusal_counts_all_rows_of_the_reason_and_gives_the_time(spy):
    message = refusal(spy(GOOD + "2020-01-07,0,12,0,11,1\n2020-01-08,0,12,0,11,1\n"))
    assert "2020-01-07" in message
    assert "2 such lines: 5, 6" in message


def test_line_numbers_survive_blank_lines(spy):
    text = "\n" + GOOD.replace("2020-01-03", "\n2020-01-03") + "2020-01-07,10,9,9,11,100\n"
    assert refusal(spy(text)).startswith("spy.csv line 7, spy 2020-01-07")


def test_rounding_noise_of_a_vendor_is_no_violation(spy):
    bars = load_bars(spy(GOOD + "2020-01-07,10,10.999999999999,9,11,100\n"))
    assert bars.frames["spy"]["high"].iloc[-1] == 10.999999999999


def test_rows_in_a_frame_are_counted_from_zero():
    frame = pd.DataFrame(
        {"date": ["2020-01-02", "2020-01-03"], "open": 1.0, "high": [1.0, 0.5], "low": 0.5, "close": 1.0}
    )
    assert refusal(frame, symbols=("X",)).startswith("DataFrame row 1, X 2020-01-03")


def test_fault_in_a_symbol_not_asked_for_does_not_matter(spy):
    header, *rows = GOOD.splitlines()
    text = "\n".join(
        [header + ",Symbol"] + [row + ",A" for row in rows] + [row + ",B" for row in rows] + ["x,1,1,1,1,1,B"]
    )
    assert load_bars(spy(text), symbols=("A",)).report.rows_kept == 3
    assert "line 8, B" in refusal(spy(text))


def test_exact_repetition_is_dropped_and_counted(spy):
    loaded = load_bars(spy(GOOD + "2020-01-03,11.0,13,10,12,110\n"))
    assert loaded.report.dropped == {"an exact repetition": 1}
    assert loaded.sha256 == load_bars(spy(GOOD)).sha256


@pytest.mark.parametrize(("keep", "close"), [("first", 12.0), ("last", 12.5)])
def test_conflicting_repetition(spy, keep, close):
    path = spy(GOOD + "2020-01-03,11,13,10,12.5,110\n")
    message = refusal(path)
    assert message.startswith("spy.csv line 5, spy 2020-01-03")
    assert "line 3 has, with another close (12.5, before 12)" in message
    assert "on_duplicate=" in message
    loaded = load_bars(path, on_duplicate=keep)
    assert loaded.frames["spy"]["close"].iloc[1] == close
    assert list(loaded.report.dropped.values()) == [1]


def test_repetition_that_is_bad_does_not_displace_a_good_bar(spy):
    loaded = load_bars(spy(GOOD + "2020-01-03,11,13,10,0,110\n"), on_bad="drop", on_duplicate="last")
    assert loaded.sha256 == load_bars(spy(GOOD)).sha256


def test_newest_first_is_sorted_and_counted(spy):
    header, *rows = GOOD.splitlines()
    loaded = load_bars(spy("\n".join([header, *reversed(rows)])))
    assert loaded.report.unsorted == 2
    assert loaded.frames["spy"]["close"].tolist() == [11, 12, 13]
    assert "2 rows stood after a later bar" in "\n".join(loaded.report.lines())


def test_missing_adjusted_close_is_bad_only_where_it_is_used(spy):
    text = GOOD.replace("Volume\n", "Volume,Adj Close\n").replace("100\n", "100,5.5\n").replace("120\n", "120,6.5\n")
    assert "line 3, spy 2020-01-03 00:00:00: no positive adjusted close" in refusal(spy(text))
    assert load_bars(spy(text), adjust="none").report.rows_kept == 3
    assert load_bars(spy(text), on_bad="drop").report.rows_kept == 2


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("", "spy.csv is empty"),
        ("\n \n", "spy.csv is empty"),
        ("<!DOCTYPE html><html><body>403</body></html>", "is a web page"),
        ("\n  <HTML>\n", "is a web page"),
        ("Date,Open,High,Low,Close,Volume\n", "no rows below line 1"),
        ("No data", "no rows below line 1, which reads 'No data'"),
        ("Date,Close\n2020-01-02,3\n", "no column for open, high, low among 'Date, Close'"),
        ("Date,Time" + GOOD[4:], "columns 'Date' and 'Time' both read as time"),
        (GOOD.replace("Volume", "CLOSE"), "columns 'Close' and 'CLOSE' both read as close"),
        (GOOD + "2020-01-07,10,12,9,11,100,7\n", "line 5: 7 cells under a header of 6"),
        (GOOD + "2020-01-07,10,12,9,11,100,7,8\n", "line 5: 8 cells under a header of 6"),
        ("\n" + GOOD + "\n2020-01-07,10,12,9,11,100,7,8\n", "line 7: 8 cells under a header of 6"),
        (GOOD[: GOOD.index("\n2020-01-03")], "spy has 1 usable bars"),
        (b"\xff\xff\x00garbage", "line 1: not utf-8-sig text"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (b"PAR1rest", "damaged Parquet file"),
        (gzip.compress(GOOD.encode())[:-20], "damaged gzip file"),
    ],
)
def test_unusable_file_names_its_cause(spy, content, cause):
    assert cause in refusal(spy(content))


def test_no_usable_bar_at_all(spy):
    header, *_ = GOOD.splitlines()
    message = refusal(spy(header + "\n2020-01-02,0,0,0,0,0\nx,1,1,1,1,1\n"), on_bad="drop")
    assert "not one usable bar in 2 rows" in message
    assert "1 with an unreadable timestamp" in message


def test_unknown_source_lists_the_bundled_names(tmp_path):
    message = refusal("eu-daily")
    assert "'eu-daily'" in message
    assert "us-daily" in message
    assert "folder" in refusal(tmp_path)


def test_unknown_symbol_lists_those_that_are_there():
    message = refusal("us-daily", symbols=("AAPL", "GOOG"))
    assert "no symbol 'GOOG'" in message
    assert "'AAPL', 'IBM', 'MSFT'" in message


def test_unusable_frames():
    assert "has no rows" in refusal(pd.DataFrame({"open": []}))
    nested = pd.DataFrame([[1.0]], columns=pd.MultiIndex.from_tuples([("Close", "MSFT")]))
    assert "2 levels of column names" in refusal(nested)
    twice = pd.DataFrame({"Date": ["2020-01-02"]}, index=pd.Index(["2020-01-02"], name="Date"))
    assert "share a name" in refusal(twice)
