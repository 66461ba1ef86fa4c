"""The table that training and evaluation read: all symbols stacked, aligned to one timeline, with the folds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from trainer.config import DataConfig
from trainer.data.bars import YEAR_NANOSECONDS, Bars
from trainer.data.digest import nanoseconds
from trainer.data.errors import DataError
from trainer.data.features import FEATURES, WARM_UP, compute_features
from trainer.data.folds import Fold, Span, holdout, make_folds

_DAY_NANOSECONDS = 86_400e9


@dataclass(frozen=True)
class MarketTable:
    """R rows, symbol after symbol, each in time order; the warm-up of each symbol is already cut off.

    `position` is the row's place in `timeline`, the union of the symbols' timestamps. `years` is the time from this
    close to the next of the symbol, in years of 365.25 days, 0 on its last row. `linked` is false on the last row and
    before a step longer than `max_gap_days`: no episode crosses it."""

    symbols: tuple[str, ...]
    timeline: pd.DatetimeIndex
    features: np.ndarray  # float32 [R, 25]
    open: np.ndarray  # float64 [R], adjusted
    close: np.ndarray  # float64 [R], adjusted
    timestamp: np.ndarray  # int64 [R], nanoseconds UTC
    position: np.ndarray  # int64 [R]
    symbol: np.ndarray  # int64 [R], index into symbols
    years: np.ndarray  # float64 [R]
    linked: np.ndarray  # bool [R]
    folds: list[Fold]
    holdout: Span
    periods_per_year: float
    sha256: str
    report: dict[str, Any]

    def train_volatility(self, fold: int) -> float:
        """Standard deviation (ddof 1) of close-to-close log returns in the fold's train span, all symbols pooled."""
        ranges = [self.rows(symbol, self.folds[fold].spans["train"]) for symbol in range(len(self.symbols))]
        return float(np.concatenate([np.diff(np.log(self.close[a:b])) for a, b in ranges]).std(ddof=1))

    def rows(self, symbol_index: int, span: Span) -> tuple[int, int]:
        """Half-open range of the rows of a symbol whose bars lie in `span`."""
        first, last = np.searchsorted(self.symbol, [symbol_index, symbol_index + 1])
        inside = np.searchsorted(self.position[first:last], [span.start, span.stop])
        return int(first + inside[0]), int(first + inside[1])


def market_table(bars: Bars, config: DataConfig, purge: int) -> MarketTable:
    """Stack the symbols of `bars`, compute their features and cut the folds. purge: bars a training target looks ahead.

    Raises DataError when a symbol is too short, has no bars in some span, or a value is not finite."""
    columns = [_symbol_columns(symbol, frame, config.max_gap_days) for symbol, frame in bars.frames.items()]
    stacked = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
    stamps = np.unique(stacked["timestamp"])
    timeline = pd.DatetimeIndex(stamps, tz="UTC", name="timestamp")
    table = MarketTable(
        symbols=tuple(bars.frames),
        timeline=timeline,
        position=np.searchsorted(stamps, stacked["timestamp"]).astype(np.int64),
        symbol=np.repeat(np.arange(len(columns), dtype=np.int64), [len(column["timestamp"]) for column in columns]),
        folds=make_folds(timeline, config.folds, purge=purge),
        holdout=holdout(timeline, config.folds),
        periods_per_year=bars.periods_per_year,
        sha256=bars.sha256,
        report=bars.report.to_dict(),
        **stacked,
    )
    _check_finite(table)
    _check_spans(table)
    _check_volatility(table)
    return table


def _symbol_columns(symbol: str, frame: pd.DataFrame, max_gap_days: float) -> dict[str, np.ndarray]:
    if len(frame) < WARM_UP + 2:
        raise DataError(f"{symbol} has {len(frame)} bars; the features need {WARM_UP} to warm up and 2 more to trade")
    used = frame.iloc[WARM_UP:]
    stamps = nanoseconds(used.index)
    steps = np.append(np.diff(stamps), 0)
    linked = steps <= max_gap_days * _DAY_NANOSECONDS
    linked[-1] = False
    return {
        "features": compute_features(frame)[WARM_UP:].astype(np.float32),
        "open": used["open"].to_numpy(dtype=np.float64, copy=True),
        "close": used["close"].to_numpy(dtype=np.float64, copy=True),
        "timestamp": stamps.astype(np.int64),
        "years": steps / YEAR_NANOSECONDS,
        "linked": linked,
    }


def _check_finite(table: MarketTable) -> None:
    finite = np.isfinite(table.features).all(axis=1) & np.isfinite(table.open) & np.isfinite(table.close)
    if not finite.all():
        row = int(np.argmin(finite))
        names = [name for name, value in zip(FEATURES, table.features[row], strict=True) if not np.isfinite(value)]
        raise DataError(
            f"{table.symbols[table.symbol[row]]} {table.timeline[table.position[row]]}: {', '.join(names) or 'price'} "
            f"is not finite; look at the bars before it"
        )


def _check_spans(table: MarketTable) -> None:
    for fold, index in itertools.product(table.folds, range(len(table.symbols))):
        for name, span in fold.spans.items():
            start, stop = table.rows(index, span)
            if stop - start < 2:
                raise DataError(
                    f"{table.symbols[index]} has {stop - start} bars in the {name} span of fold {fold.index} "
                    f"({span.start_time} to {span.stop_time}); leave it out of data.symbols or lower data.folds.count"
                )


def _check_volatility(table: MarketTable) -> None:
    """Rewards are measured in train volatilities, so there must be one."""
    for fold in table.folds:
        if not table.train_volatility(fold.index) > 0:
            span = fold.spans["train"]
            raise DataError(
                f"no price moves between {span.start_time} and {span.stop_time}, the train span of fold {fold.index}: "
                f"there is nothing to learn; check that the prices are those of the instrument"
            )
