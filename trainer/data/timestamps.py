"""Read timestamps of any common spelling as nanoseconds since 1970 in UTC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

FIRST_YEAR, LAST_YEAR = 1900, 2100
ACCEPTED = "ISO 8601, %Y%m%d, or seconds, milliseconds, microseconds or nanoseconds since 1970"

# The unit of an epoch stamp follows from its size, value by value: files exist that change unit half way.
_EPOCH_UNITS = ((10**8, 10**11, 10**9), (10**11, 10**14, 10**6), (10**14, 10**17, 10**3), (10**17, 10**19, 1))
_EARLIEST_STAMP = pd.Timestamp(year=FIRST_YEAR, month=1, day=1, tz="UTC")
_LATEST_STAMP = pd.Timestamp(year=LAST_YEAR + 1, month=1, day=1, tz="UTC")
_EARLIEST = np.datetime64(f"{FIRST_YEAR}-01-01", "s")
_LATEST = np.datetime64(f"{LAST_YEAR + 1}-01-01", "s")
_LATEST_NANOSECOND = int(_LATEST.astype(np.int64)) * 10**9


@dataclass(frozen=True)
class Timestamps:
    """`nanoseconds` int64 [T], UTC, 0 where not `readable` (bool [T]); `naive` counts stamps without a time zone."""

    nanoseconds: np.ndarray
    readable: np.ndarray
    naive: int


def parse_timestamps(values: pd.Series) -> Timestamps:
    """Read a column of dates: a datetime or period dtype, numbers, text, or a mixture. Stamps with a time zone are
    converted to UTC, those without are taken as UTC."""
    if isinstance(values.dtype, pd.PeriodDtype):
        values = values.dt.to_timestamp()
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        return _from_datetimes(pd.DatetimeIndex(values), np.zeros(len(values), dtype=bool))
    if pd.api.types.is_datetime64_dtype(values.dtype):
        return _from_datetimes(pd.DatetimeIndex(values).tz_localize("UTC"), np.ones(len(values), dtype=bool))
    return _whole_epochs(values) or _from_mixture(values.astype(object))


def _from_datetimes(stamps: pd.DatetimeIndex, naive: np.ndarray) -> Timestamps:
    utc = stamps.tz_convert("UTC").tz_localize(None)
    seconds = utc.to_numpy().astype("datetime64[s]")
    readable = ~np.isnat(seconds) & (seconds >= _EARLIEST) & (seconds < _LATEST)
    nanoseconds = np.zeros(len(stamps), dtype=np.int64)
    nanoseconds[readable] = utc[readable].to_numpy().astype("datetime64[ns]").astype(np.int64)
    return Timestamps(nanoseconds, readable, int((naive & readable).sum()))


def _from_mixture(values: pd.Series) -> Timestamps:
    text = values.map(_as_text).astype(object)
    numeric = text.str.fullmatch(r"\d+(\.\d*)?").to_numpy(dtype=bool)
    dates = numeric & text.str.fullmatch(r"(19|20|21)\d{6}").to_numpy(dtype=bool)
    epochs = numeric & ~dates
    zoned = text.str.contains(r"\d[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$", regex=True).to_numpy(dtype=bool)
    stamps = pd.Series(pd.NaT, index=values.index, dtype="datetime64[ns, UTC]")
    for rows, spelling in ((~numeric, "ISO8601"), (dates, "%Y%m%d")):
        if rows.any():
            read = pd.to_datetime(text[rows], format=spelling, utc=True, errors="coerce")
            stamps[rows] = read.where((read >= _EARLIEST_STAMP) & (read < _LATEST_STAMP))
    parsed = _from_datetimes(pd.DatetimeIndex(stamps), ~epochs & ~zoned)
    nanoseconds, inside = _from_epochs(text[epochs])
    parsed.nanoseconds[epochs], parsed.readable[epochs] = nanoseconds, inside
    return parsed


def _as_text(value: object) -> str:
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float | np.floating):
        return np.format_float_positional(value, trim="-")
    return str(value).strip()


def _from_epochs(text: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Whole and fractional part are read apart: a float64 of a nanosecond stamp would lose its last digits."""
    parts = [stamp.partition(".") for stamp in text]
    whole = np.array([min(int(part[0]), _LATEST_NANOSECOND) for part in parts], dtype=np.int64)
    return _scale(whole, np.array([float(f"0.{part[2]}") if part[2] else 0.0 for part in parts]))


def _scale(whole: np.ndarray, fraction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64 nanoseconds, and bool: whether each stamp lies inside the accepted years."""
    nanoseconds = np.zeros(len(whole), dtype=np.int64)
    inside = np.zeros(len(whole), dtype=bool)
    for low, high, scale in _EPOCH_UNITS:
        rows = (whole >= low) & (whole < min(high, _LATEST_NANOSECOND // scale))
        nanoseconds[rows] = whole[rows] * scale + np.rint(fraction[rows] * scale).astype(np.int64)
        inside |= rows
    return nanoseconds, inside


def _whole_epochs(values: pd.Series) -> Timestamps | None:
    """The quick way for long files, where every stamp is a whole number since 1970; None for any other column."""
    try:
        whole = values.to_numpy(dtype=object).astype(np.str_).astype(np.int64)
    except (ValueError, OverflowError):
        return None
    if not (whole >= _EPOCH_UNITS[0][0]).all():
        return None
    return Timestamps(*_scale(whole, np.zeros(len(whole))), naive=0)
