"""Read price and volume cells as float64, correctly rounded, so that every container gives the same bits."""

from __future__ import annotations

import numpy as np
import pandas as pd

_MISSING = {"", "null", "nan", "na", "n/a", "none", "<na>"}


def parse_numbers(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """float64 [T] with NaN where a cell is empty or no number, and bool [T] that is true where it is no number."""
    if pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.zeros(len(numbers), dtype=bool)
    cells = values.to_numpy(dtype=object)
    try:
        numbers = cells.astype(np.str_).astype(np.float64)
        return numbers, np.zeros(len(cells), dtype=bool)
    except ValueError:
        pass
    numbers = np.full(len(cells), np.nan)
    unreadable = np.zeros(len(cells), dtype=bool)
    for row, cell in enumerate(cells):
        text = str(cell).strip()
        try:
            numbers[row] = float(text)
        except ValueError:
            unreadable[row] = text.lower() not in _MISSING
    return numbers, unreadable
