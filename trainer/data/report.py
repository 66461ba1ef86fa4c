"""What the loader read, left out and noticed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from trainer.data.digest import nanoseconds

_DAY = 86_400e9  # nanoseconds


@dataclass(frozen=True)
class SymbolReport:
    """One symbol after loading. Steps in seconds, gaps in days; a gap is a step longer than `max_gap_days`."""

    bars: int
    start: str
    end: str
    median_step_seconds: float
    gaps: int
    longest_gap_days: float
    largest_return: float  # simple close-to-close return of largest size
    largest_return_at: str
    adjustments: int
    zero_volume_share: float
    unknown_volume_share: float


@dataclass(frozen=True)
class LoadReport:
    """The whole load. `sha256` identifies the bars as they are used, after adjustment."""

    source: str
    rows_read: int
    rows_kept: int
    dropped: dict[str, int]
    unsorted: int
    sha256: str
    symbols: dict[str, SymbolReport] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {**asdict(self), "notes": list(self.notes)}

    def lines(self) -> list[str]:
        """The report for a terminal, one fact a line."""
        text = [f"{self.source}: {self.rows_read} rows read, {self.rows_kept} bars kept, sha256 {self.sha256[:16]}"]
        text += [f"  left out: {count} rows with {reason}" for reason, count in self.dropped.items()]
        if self.unsorted:
            text.append(f"  sorted: {self.unsorted} rows stood after a later bar of their symbol")
        for symbol, one in self.symbols.items():
            text.append(
                f"  {symbol}: {one.bars} bars, {one.start[:10]} to {one.end[:10]}, one per "
                f"{pd.Timedelta(seconds=one.median_step_seconds)}; {one.gaps} gaps, the longest step "
                f"{one.longest_gap_days:.3g} days; largest return {one.largest_return:+.1%} "
                f"on {one.largest_return_at[:10]}; {one.adjustments} price adjustments; volume zero "
                f"{one.zero_volume_share:.1%}, unknown {one.unknown_volume_share:.1%}"
            )
        return text + [f"  note: {note}" for note in self.notes]


def describe(frame: pd.DataFrame, *, adjustments: int, max_gap_days: float) -> SymbolReport:
    """Figures of one symbol's bars (two or more, strictly increasing in time)."""
    steps = np.diff(nanoseconds(frame.index))
    close = frame["close"].to_numpy()
    returns = close[1:] / close[:-1] - 1.0
    largest = int(np.argmax(np.abs(returns)))
    volume = frame["volume"].to_numpy()
    return SymbolReport(
        bars=len(frame),
        start=frame.index[0].isoformat(),
        end=frame.index[-1].isoformat(),
        median_step_seconds=float(np.median(steps)) / 1e9,
        gaps=int((steps > max_gap_days * _DAY).sum()),
        longest_gap_days=float(steps.max() / _DAY),
        largest_return=float(returns[largest]),
        largest_return_at=frame.index[largest + 1].isoformat(),
        adjustments=adjustments,
        zero_volume_share=float((volume == 0).mean()),
        unknown_volume_share=float(np.isnan(volume).mean()),
    )
