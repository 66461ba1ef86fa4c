"""Load market bars: read, name, date, validate, order, adjust, report. Each step is a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from trainer.data.adjust import adjust_prices, is_adjustable
from trainer.data.columns import name_columns
from trainer.data.digest import COLUMNS, canonical_sha256, nanoseconds
from trainer.data.errors import DataError
from trainer.data.ordering import count_unsorted, order_bars
from trainer.data.read import RawTable, read_table
from trainer.data.report import LoadReport, describe
from trainer.data.timestamps import Timestamps, parse_timestamps
from trainer.data.validate import validate

YEAR_NANOSECONDS = 365.25 * 86_400e9


@dataclass(frozen=True)
class Bars:
    """Bars by symbol. Each frame has a strictly increasing UTC index and float64 columns open, high, low, close
    (positive, adjusted) and volume (as traded; NaN where unknown)."""

    frames: dict[str, pd.DataFrame]
    report: LoadReport

    @property
    def sha256(self) -> str:
        return self.report.sha256

    @property
    def timeline(self) -> pd.DatetimeIndex:
        """Every timestamp at which some symbol has a bar."""
        stamps = np.unique(np.concatenate([nanoseconds(frame.index) for frame in self.frames.values()]))
        return pd.DatetimeIndex(stamps, tz="UTC")

    @property
    def periods_per_year(self) -> float:
        """Steps of the pooled timeline per year of 365.25 days, over the time it really spans."""
        stamps = nanoseconds(self.timeline)
        return float((len(stamps) - 1) / ((stamps[-1] - stamps[0]) / YEAR_NANOSECONDS))


def load_bars(
    source: str | Path | pd.DataFrame,
    *,
    symbols: Sequence[str] = (),
    adjust: Literal["auto", "none"] = "auto",
    on_bad: Literal["raise", "drop"] = "raise",
    on_duplicate: Literal["raise", "first", "last"] = "raise",
    max_gap_days: float = 10.0,
) -> Bars:
    """Validated, adjusted, UTC-indexed bars of `symbols` (none: all, sorted by name).

    source: a bundled name ("us-daily"), a path to a CSV (plain or gzip; , ; tab or |) or Parquet file, or a DataFrame.
    A source without a symbol column holds one symbol, named by the file's stem or, in a DataFrame, by `symbols`.
    adjust: "auto" scales prices by adjusted close / close where the source has one.
    on_bad, on_duplicate: "raise" stops at the first bad row or conflicting repetition; the others say what to keep.
    max_gap_days: longer steps are counted as gaps in the report.

    Raises DataError naming file, row, symbol and time, and the option that accepts the row."""
    _check_option("adjust", adjust, ("auto", "none"))
    _check_option("on_bad", on_bad, ("raise", "drop"))
    _check_option("on_duplicate", on_duplicate, ("raise", "first", "last"))
    table = read_table(source)
    named = name_columns(table)
    rows_read = len(named)
    table, named, labels, dropped = _select(table, named, tuple(symbols))
    stamps = parse_timestamps(named["time"])
    adjusted = is_adjustable(named, adjust)
    bars, bad = validate(table, named, stamps, labels, on_bad=on_bad, adjusted=adjusted)
    unsorted = count_unsorted(bars)
    bars, repeated = order_bars(table, bars, on_duplicate=on_duplicate)
    bars, events = adjust_prices(bars) if adjusted else (bars, {})
    frames = _split(table, bars, tuple(symbols))
    report = LoadReport(
        source=table.name,
        rows_read=rows_read,
        rows_kept=len(bars),
        dropped={**dropped, **bad, **repeated},
        unsorted=unsorted,
        sha256=canonical_sha256(frames),
        symbols={
            name: describe(frame, adjustments=events.get(name, 0), max_gap_days=max_gap_days)
            for name, frame in frames.items()
        },
        notes=tuple(_notes(named, stamps, adjust)),
    )
    return Bars(frames, report)


def _check_option(name: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise DataError(f"{name}={value!r} is none of {', '.join(map(repr, accepted))}")


def _select(
    table: RawTable, named: pd.DataFrame, symbols: tuple[str, ...]
) -> tuple[RawTable, pd.DataFrame, np.ndarray, dict[str, int]]:
    """Keep the rows of the symbols asked for, before anything is validated: a fault elsewhere does not concern them."""
    labels = _symbol_labels(table, named, symbols)
    if not symbols:
        return table, named, labels, {}
    present = sorted(set(labels) - {""})
    absent = [symbol for symbol in symbols if symbol not in present]
    if absent:
        raise DataError(
            f"{table.name} has no symbol {', '.join(map(repr, absent))}; it has {', '.join(map(repr, present))}. "
            f"Set symbols to those wanted, or to none for all"
        )
    keep = np.isin(labels, symbols)
    others = int((~keep).sum())
    if not others:
        return table, named, labels, {}
    kept = RawTable(table.cells[keep], table.numbers[keep], table.name, table.unit, table.symbol)
    return kept, named[keep].reset_index(drop=True), labels[keep], {"a symbol not asked for": others}


def _symbol_labels(table: RawTable, named: pd.DataFrame, symbols: tuple[str, ...]) -> np.ndarray:
    if "symbol" in named:
        column = named["symbol"].astype(object)
        return column.where(column.notna(), "").map(lambda label: str(label).strip()).to_numpy(dtype=object)
    name = table.symbol or (symbols[0] if len(symbols) == 1 else "DATA")
    return np.full(len(named), name, dtype=object)


def _split(table: RawTable, bars: pd.DataFrame, symbols: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    grouped = dict(iter(bars.groupby("symbol", sort=True)))
    frames: dict[str, pd.DataFrame] = {}
    for symbol in symbols or sorted(map(str, grouped)):
        rows = grouped.get(symbol)
        if rows is None or len(rows) < 2:
            raise DataError(
                f"{table.name}: {symbol} has {0 if rows is None else len(rows)} usable bars; 2 are the least"
            )
        index = pd.DatetimeIndex(rows["time"].to_numpy(), tz="UTC", name="timestamp")
        frames[symbol] = rows[list(COLUMNS)].set_axis(index, axis=0)
    return frames


def _notes(named: pd.DataFrame, stamps: Timestamps, adjust: str) -> list[str]:
    notes = []
    if stamps.naive:
        notes.append(f"{stamps.naive} timestamps without a time zone were read as UTC")
    if "volume" not in named:
        notes.append("the source has no volume; features of volume are 0")
    if adjust == "auto" and "adjusted" not in named:
        notes.append("the source has no adjusted close; prices were taken as they are")
    if adjust == "none" and "adjusted" in named:
        notes.append('prices were not adjusted for splits and dividends (adjust="none")')
    return notes
