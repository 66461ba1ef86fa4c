"""Decide which rows are bars: readable, positive, and with open and close inside [low, high]."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from trainer.data.columns import PRICES
from trainer.data.errors import DataError
from trainer.data.numbers import parse_numbers
from trainer.data.read import RawTable
from trainer.data.timestamps import ACCEPTED, Timestamps

# Vendors that adjust prices themselves leave rounding noise, such as a high one ulp below its close.
_ROUNDING = 1e-9
_LISTED = 5


def validate(
    table: RawTable, named: pd.DataFrame, stamps: Timestamps, symbols: np.ndarray, *, on_bad: str, adjusted: bool
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The rows that are bars, as columns time (int64 ns), symbol, open, high, low, close, volume, adjusted (float64)
    and row (position in `table`), and the number of rows left out by reason. Absent volume and adjusted close are NaN.

    Raises DataError at the first bad row unless `on_bad` is "drop"."""
    bars = pd.DataFrame({"time": stamps.nanoseconds, "symbol": symbols, "row": np.arange(len(named))})
    unreadable: dict[str, np.ndarray] = {}
    for name in (*PRICES, "volume", "adjusted"):
        column = named[name] if name in named else pd.Series(np.nan, index=named.index)
        bars[name], unreadable[name] = parse_numbers(column)
    required = adjusted and "adjusted" in named
    bad = np.zeros(len(bars), dtype=bool)
    dropped: dict[str, int] = {}
    for reason, rows in _faults(bars, stamps, unreadable, required):
        rows = rows & ~bad
        if rows.any():
            dropped[reason] = int(rows.sum())
            bad |= rows
            if on_bad == "raise":
                _refuse(table, named, bars, stamps, reason, np.flatnonzero(rows))
    if bad.all():
        reasons = ", ".join(f"{count} with {reason}" for reason, count in dropped.items())
        raise DataError(f"{table.name}: not one usable bar in {len(bars)} rows ({reasons})")
    return bars[~bad].reset_index(drop=True), dropped


def _faults(
    bars: pd.DataFrame, stamps: Timestamps, unreadable: dict[str, np.ndarray], adjusted: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """Each reason with its rows. A row counts under the first reason that applies."""
    prices = bars[list(PRICES)].to_numpy()
    open_, high, low, close = prices.T
    yield "an unreadable timestamp", ~stamps.readable
    yield "no symbol", (bars["symbol"] == "").to_numpy()
    for name in (*PRICES, "volume"):
        yield f"a {name} that is not a number", unreadable[name]
    for position, name in enumerate(PRICES):
        yield f"no {name}", np.isnan(prices[:, position])
    yield "an infinite price", np.isinf(prices).any(axis=1)
    yield "a price that is not positive", (prices <= 0).any(axis=1)
    yield "a high below the open, low or close", high < np.maximum(np.maximum(open_, close), low) * (1 - _ROUNDING)
    yield "a low above the open or close", low > np.minimum(open_, close) * (1 + _ROUNDING)
    volume = bars["volume"].to_numpy()
    yield "a negative or infinite volume", (volume < 0) | np.isinf(volume)
    if adjusted:
        factor = bars["adjusted"].to_numpy()
        yield "no positive adjusted close", ~((factor > 0) & np.isfinite(factor))


def _refuse(
    table: RawTable, named: pd.DataFrame, bars: pd.DataFrame, stamps: Timestamps, reason: str, rows: np.ndarray
) -> None:
    first = int(rows[0])
    found = ", ".join(f"{name} {named[name].iloc[first]!s}" for name in named if name not in ("time", "symbol"))
    if reason == "an unreadable timestamp":
        found = f"{named['time'].iloc[first]!r}; read are {ACCEPTED}"
    when = f" {pd.Timestamp(bars['time'].iloc[first])}" if stamps.readable[first] else ""
    others = ", ".join(str(number) for number in table.numbers[rows[:_LISTED]])
    count = f"{len(rows)} such {table.unit}s: {others}{', ...' if len(rows) > _LISTED else ''}"
    raise DataError(
        f"{table.place(first)}, {bars['symbol'].iloc[first] or '?'}{when}: {reason} ({found}). {count}. "
        f'Mend the source or pass on_bad="drop" to leave such rows out'
    )
