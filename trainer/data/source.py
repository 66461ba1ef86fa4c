"""From a data configuration to the table that trials read: the one way, for the plan and for every worker."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from trainer.config import DataConfig
from trainer.data.bars import load_bars
from trainer.data.table import MarketTable, market_table


def load_table(data: DataConfig) -> MarketTable:
    """Bars, features and folds of `data`; kept, because the trials of a sweep share them. Errors: DataError."""
    path = Path(data.source).expanduser()
    changed = path.stat() if path.is_file() else None
    return _load_table(data, changed and (changed.st_mtime_ns, changed.st_size))


@lru_cache(maxsize=2)
def _load_table(data: DataConfig, version: tuple[int, int] | None) -> MarketTable:
    """`version` tells two states of one file apart."""
    bars = load_bars(data.source, **data.model_dump(exclude={"source", "folds"}))
    return market_table(bars, data, data.folds.purge)
