"""The identity of a set of bars, whatever file it came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

COLUMNS = ("open", "high", "low", "close", "volume")
_VERSION = b"gemsweep bars 1"


def canonical_sha256(frames: Mapping[str, pd.DataFrame]) -> str:
    """SHA-256 over symbols in sorted order: name, number of bars, then time (int64 ns UTC) and the float64 columns,
    little endian, one NaN, no negative zero. Equal bars give equal digests from CSV, Parquet and DataFrame, in any row
    order."""
    digest = hashlib.sha256(_VERSION)
    for symbol in sorted(frames):
        frame = frames[symbol]
        digest.update(f"\n{symbol}\n{len(frame)}\n".encode())
        digest.update(nanoseconds(frame.index).astype("<i8").tobytes())
        for name in COLUMNS:
            values = frame[name].to_numpy(dtype=np.float64) + 0.0
            values[np.isnan(values)] = np.nan
            digest.update(values.astype("<f8").tobytes())
    return digest.hexdigest()


def nanoseconds(index: pd.Index) -> np.ndarray:
    """int64 nanoseconds since 1970 in UTC, whatever unit the index is stored in."""
    return pd.DatetimeIndex(index).as_unit("ns").asi8
