"""Sniff a source and read its cells as they stand: file or DataFrame in, untyped table with row numbers out."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from trainer.data.catalogue import BUNDLED
from trainer.data.errors import DataError

_DELIMITERS = ",;\t|"
_MARKUP = re.compile(r"\s*<(!doctype|html|head|body|\?xml)", re.IGNORECASE)
_SUFFIXES = re.compile(r"\.(csv|txt|tsv|gz|parquet|pq)$", re.IGNORECASE)


@dataclass(frozen=True)
class RawTable:
    """Cells as found. `numbers[i]` is where row i stands in the source, in `unit`: "line" from 1 or "row" from 0."""

    cells: pd.DataFrame
    numbers: np.ndarray
    name: str
    unit: str
    symbol: str | None  # of a file without a symbol column: its stem

    def place(self, row: int) -> str:
        """Name one row of the source, as error messages do."""
        return f"{self.name} {self.unit} {self.numbers[row]}"


def read_table(source: str | Path | pd.DataFrame) -> RawTable:
    """Read a bundled name, a path to a CSV (plain or gzip) or Parquet file, or a DataFrame. A bundled name wins over a
    file of that name. Raises DataError when there is nothing to read, naming the cause."""
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, "DataFrame", None)
    path = _find(source)
    content = _decompress(path.read_bytes(), path.name)
    if content[:4] == b"PAR1":
        return _from_frame(_read_parquet(content, path.name), path.name, _stem(path))
    return _from_text(_decode(content, path.name), path.name, _stem(path))


def _find(source: str | Path) -> Path:
    if isinstance(source, str) and source in BUNDLED:
        return BUNDLED[source]
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{path} is a folder; name one CSV or Parquet file in it")
    if not path.is_file():
        raise DataError(
            f"no file {str(source)!r} and no bundled data of that name; bundled: {', '.join(sorted(BUNDLED))}"
        )
    return path


def _stem(path: Path) -> str:
    name = path.name
    while _SUFFIXES.search(name):
        name = _SUFFIXES.sub("", name)
    return name


def _decompress(content: bytes, name: str) -> bytes:
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{name}: damaged gzip file ({error}); fetch it again") from error
    if content[:4] == b"PK\x03\x04":
        raise DataError(f"{name} is a zip archive; unpack it and name the file inside")
    if not content.strip():
        raise DataError(f"{name} is empty")
    return content


def _decode(content: bytes, name: str) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{name} line {line}: not {encoding} text, CSV or Parquet ({error.reason})") from error
    if _MARKUP.match(text):
        raise DataError(f"{name} is a web page, not data: its source refused or moved the download")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _from_text(text: str, name: str, symbol: str) -> RawTable:
    lines = text.split("\n")
    top = next(index for index, line in enumerate(lines) if line.strip())
    delimiter = max(_DELIMITERS, key=lines[top].count)
    header = [cell.strip() for cell in next(csv.reader([lines[top]], delimiter=delimiter))]
    if not any(line.strip() for line in lines[top + 1 :]):
        raise DataError(f"{name}: no rows below line {top + 1}, which reads {lines[top][:80]!r}")
    cells = _parse_rows(text, name, delimiter, top + 1, len(header))
    numbers = np.arange(len(cells), dtype=np.int64) + top + 2
    filled = cells.notna().any(axis=1).to_numpy()
    cells, numbers = cells[filled].reset_index(drop=True), numbers[filled]
    surplus = np.flatnonzero(cells[len(header)].notna().to_numpy())
    if len(surplus):
        found = f"{len(header) + 1} cells under a header of {len(header)}"
        raise DataError(f"{name} line {numbers[surplus[0]]}: {found} (delimiter {delimiter!r})")
    cells = cells.drop(columns=len(header))
    cells.columns = pd.Index(header, dtype=object)
    return RawTable(cells, numbers, name, "line", symbol)


def _parse_rows(text: str, name: str, delimiter: str, skip: int, width: int) -> pd.DataFrame:
    """One column more than the header has, so that a row with a cell too many is seen and not cut."""
    try:
        return pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            header=None,
            names=range(width + 1),
            skiprows=skip,
            dtype=str,
            na_values=[""],
            keep_default_na=False,
            skip_blank_lines=False,
            index_col=False,
            skipinitialspace=True,
        )
    except pd.errors.ParserError as error:
        found = re.search(r"Expected \d+ fields in line (\d+), saw (\d+)", str(error))
        if found is None:
            raise DataError(f"{name}: not a table with delimiter {delimiter!r} ({error})") from error
        line, count = found.groups()
        raise DataError(
            f"{name} line {line}: {count} cells under a header of {width} (delimiter {delimiter!r})"
        ) from error


def _read_parquet(content: bytes, name: str) -> pd.DataFrame:
    try:
        return pd.read_parquet(io.BytesIO(content))
    except (OSError, ValueError) as error:
        raise DataError(f"{name}: damaged Parquet file ({error}); fetch it again") from error


def _from_frame(frame: pd.DataFrame, name: str, symbol: str | None) -> RawTable:
    if not len(frame):
        raise DataError(f"{name} has no rows; its columns are {', '.join(map(str, frame.columns)) or 'none'}")
    if isinstance(frame.columns, pd.MultiIndex):
        raise DataError(f"{name} has {frame.columns.nlevels} levels of column names; flatten them to one")
    cells = _index_to_columns(frame, name)
    return RawTable(cells, np.arange(len(cells), dtype=np.int64), name, "row", symbol)


def _index_to_columns(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    index = frame.index
    dated = isinstance(index, pd.DatetimeIndex | pd.PeriodIndex)
    if dated and index.name is None:
        return frame.rename_axis("timestamp").reset_index()
    if not dated and all(level is None for level in index.names):
        return frame.reset_index(drop=True)
    try:
        return frame.reset_index()
    except ValueError as error:
        raise DataError(f"{name}: an index level and a column share a name ({error}); rename one") from error
