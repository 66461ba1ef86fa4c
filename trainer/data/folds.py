"""Cut the timeline into (train, validation, judge) spans and a hold-out at the end.

Walk-forward: each fold trains on the past, picks on the next stretch and is judged on the one after. Around every
border that information could cross, purge + embargo bars belong to no span (Lopez de Prado 2018, Advances in Financial
Machine Learning, chapter 7): the purge covers the bars an n-step target looks ahead, the embargo what lingers beyond.

    fold 0   train...  gap  validation  gap  judge
    fold 1   train............................  gap  validation  gap  judge
    both                                                                gap  hold-out
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from trainer.config import FoldConfig
from trainer.data.errors import DataError

SpanName = Literal["train", "validation", "judge"]

# A shorter span has fewer than 20 returns, which is no sample to take a Sharpe ratio of.
SHORTEST_SPAN = 21


@dataclass(frozen=True)
class Span:
    """Positions [start, stop) of the timeline. `start_time` and `stop_time` are the first and the last bar inside."""

    start: int
    stop: int
    start_time: pd.Timestamp
    stop_time: pd.Timestamp

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Fold:
    """One cut. Its train span is before its validation span, which is before its judge span."""

    index: int
    spans: dict[SpanName, Span]


def holdout(timeline: pd.DatetimeIndex, config: FoldConfig) -> Span:
    """The last `config.holdout` share of all bars; empty when the share is 0. Raises DataError on an empty timeline."""
    if not len(timeline):
        raise DataError("the timeline is empty: there is nothing to cut into folds")
    return _span(timeline, len(timeline) - round(config.holdout * len(timeline)), len(timeline))


def make_folds(timeline: pd.DatetimeIndex, config: FoldConfig, *, purge: int) -> list[Fold]:
    """`config.count` folds before the hold-out, oldest first; no judge span overlaps any other, or any
    validation span: what is picked on one bar is never judged on it.

    timeline: strictly increasing timestamps. purge: bars that a training target looks ahead.
    Raises DataError with the numbers when the spans do not fit."""
    if purge < 0:
        raise DataError(f"purge={purge} must not be negative")
    if not timeline.is_monotonic_increasing or not timeline.is_unique:
        raise DataError("the timeline must be strictly increasing")
    gap = purge + config.embargo
    end = holdout(timeline, config).start
    judged_until = end - gap if end < len(timeline) else end
    step = round(config.judge * len(timeline)) + round(config.validation * len(timeline)) + 2 * gap
    return [
        _fold(timeline, config, index, judged_until - (config.count - 1 - index) * step, gap)
        for index in range(config.count)
    ]


def _fold(timeline: pd.DatetimeIndex, config: FoldConfig, index: int, stop: int, gap: int) -> Fold:
    """The fold whose judge span ends before position `stop`."""
    total = len(timeline)
    judge_start = stop - round(config.judge * total)
    validation_stop = judge_start - gap
    validation_start = validation_stop - round(config.validation * total)
    train_stop = validation_start - gap
    train_start = 0 if config.mode == "anchored" else train_stop - round(config.train * total)
    bounds: dict[SpanName, tuple[int, int]] = {
        "train": (train_start, train_stop),
        "validation": (validation_start, validation_stop),
        "judge": (judge_start, stop),
    }
    for name, (start, end) in bounds.items():
        if start < 0 or end - start < SHORTEST_SPAN:
            _refuse(config, index, name, start, end, total, gap)
    return Fold(index, {name: _span(timeline, *bound) for name, bound in bounds.items()})


def _refuse(config: FoldConfig, index: int, name: str, start: int, end: int, total: int, gap: int) -> None:
    shares = f"holdout={config.holdout:g}, judge={config.judge:g}, validation={config.validation:g}"
    if config.mode == "rolling":
        shares += f", train={config.train:g}"
    raise DataError(
        f"the {name} span of fold {index} would be bars [{start}, {end}) of {total}; it needs {SHORTEST_SPAN} bars "
        f"from 0 on. With {shares} (shares of all bars), count={config.count} and {gap} bars left out at each border, "
        f"lower count, a share, purge or embargo in [data.folds], or bring more bars"
    )


def _span(timeline: pd.DatetimeIndex, start: int, stop: int) -> Span:
    if start == stop:
        return Span(start, stop, timeline[-1], timeline[-1])
    return Span(start, stop, timeline[start], timeline[stop - 1])
