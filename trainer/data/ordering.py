"""Bring bars into time order and settle repeated timestamps."""

from __future__ import annotations

import numpy as np
import pandas as pd

from trainer.data.columns import PRICES
from trainer.data.errors import DataError
from trainer.data.read import RawTable

_VALUES = [*PRICES, "volume", "adjusted"]


def count_unsorted(bars: pd.DataFrame) -> int:
    """Rows that stand after a later bar of their own symbol."""
    return int((bars["time"] < bars.groupby("symbol", sort=False)["time"].shift()).sum())


def order_bars(table: RawTable, bars: pd.DataFrame, *, on_duplicate: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Sort stably by symbol and time, so that "first" and "last" keep their meaning in the source, and leave one bar a
    timestamp. Repetitions equal in every value are dropped; for others `on_duplicate` decides: "first", "last", or
    "raise" (DataError naming both rows). Returns the bars and the number of rows left out by reason."""
    bars = bars.sort_values(["symbol", "time"], kind="stable").reset_index(drop=True)
    dropped: dict[str, int] = {}
    equal = bars.duplicated(["symbol", "time", *_VALUES], keep="first").to_numpy()
    if equal.any():
        dropped["an exact repetition"] = int(equal.sum())
        bars = bars[~equal].reset_index(drop=True)
    again = bars.duplicated(["symbol", "time"], keep="first").to_numpy()
    if again.any():
        if on_duplicate == "raise":
            _refuse(table, bars, np.flatnonzero(again))
        dropped[f"a timestamp that another row has (kept the {on_duplicate})"] = int(again.sum())
        keep = "first" if on_duplicate == "first" else "last"
        bars = bars[~bars.duplicated(["symbol", "time"], keep=keep).to_numpy()].reset_index(drop=True)
    return bars, dropped


def _refuse(table: RawTable, bars: pd.DataFrame, rows: np.ndarray) -> None:
    second = int(rows[0])
    this, that = bars.iloc[second], bars.iloc[second - 1]
    different = next(
        name for name in _VALUES if this[name] != that[name] and not pd.isna([this[name], that[name]]).all()
    )
    raise DataError(
        f"{table.place(int(this['row']))}, {this['symbol']} {pd.Timestamp(this['time'])}: a second bar for a timestamp "
        f"that {table.unit} {table.numbers[int(that['row'])]} has, with another {different} ({this[different]:g}, "
        f'before {that[different]:g}). {len(rows)} in all. Mend the source or pass on_duplicate="first" or "last"'
    )
