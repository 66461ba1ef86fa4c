"""The market as device tensors, and the walks that gather experience.

Timeline of one step: bar t closes; features use bars <= t; the agent picks a target exposure; the order fills at the
open of bar t+1; the account is marked at the close of bar t+1; the reward is the log change of equity between the two
closes. The private part of the observation is the index of the last target, so the observable state is finite; drifted
weights and equity are float64 money and decide traded notional and cost only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import numba_kernels as nk
from trainer.config import MarketConfig
from trainer.data.folds import SpanName
from trainer.data.table import MarketTable
from trainer.params import TARGETS

SHORT, FLAT, LONG = 0, 1, 2
TERMINATED, TRUNCATED = 1, 2  # flags of a transition


def target_of(direction: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """Index of the target exposure: 0 flat, 1..3 short by thirds, 4..6 long by thirds."""
    target = torch.where(direction == SHORT, 1 + magnitude, 4 + magnitude)
    return target.masked_fill(direction == FLAT, 0)


def cost_row(market: MarketConfig) -> list[float]:
    """The five account parameters in the order that the market kernels read them."""
    trade = (market.commission_bps + market.half_spread_bps + market.slippage_bps) * 1e-4
    return [trade, market.financing_rate, market.borrow_rate, market.rebalance_band, market.bankruptcy_equity]


@dataclass(frozen=True)
class Market:
    """Read-only tables shared by all members; R rows = all symbols' bars below each other."""

    features: torch.Tensor  # float32 [R, F]
    open: torch.Tensor  # float64 [R]
    close: torch.Tensor  # float64 [R]
    years: torch.Tensor  # float64 [R], this close to the next
    linked: torch.Tensor  # bool [R], the next row continues this one
    targets: torch.Tensor  # float32 [7, 7], one-hot rows
    costs: torch.Tensor  # float64 [P, 5]

    def observe(self, row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """float32 `[P, N, F + 7]` for int64 rows and last targets `[P, N]`."""
        out = self.features.new_empty(*row.shape, self.features.shape[1] + TARGETS)
        nk.observe(self.features, row.contiguous(), target.contiguous(), out)
        return out


@dataclass(frozen=True)
class TrainSpans:
    """Where walks may start: every bar of the train span with a successor, all symbols below each other, by fold."""

    rows: torch.Tensor  # int64 [folds, N], padded with zeros
    last: torch.Tensor  # int64 [folds, N], last row of the span of that row's symbol
    count: torch.Tensor  # int64 [folds]
    fold: torch.Tensor  # int64 [P]


def make_train_spans(table: MarketTable, folds: list[int], device: torch.device) -> TrainSpans:
    starts, lasts = [], []
    for fold in range(len(table.folds)):
        ranges = [table.rows(s, table.folds[fold].spans["train"]) for s in range(len(table.symbols))]
        rows = np.concatenate([np.arange(start, stop - 1) for start, stop in ranges])
        last = np.concatenate([np.full(max(stop - 1 - start, 0), stop - 1) for start, stop in ranges])
        starts.append(rows[table.linked[rows]])
        lasts.append(last[table.linked[rows]])
    count = np.array([len(rows) for rows in starts])
    width = int(count.max())
    padded = [np.stack([np.pad(a, (0, width - len(a))) for a in arrays]) for arrays in (starts, lasts)]
    tensors = [torch.from_numpy(a.astype(np.int64)).to(device) for a in (*padded, count, np.array(folds))]
    return TrainSpans(*tensors)


def make_market(table: MarketTable, config: MarketConfig, members: int, device: torch.device) -> Market:
    def put(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    costs = torch.tensor([cost_row(config)], dtype=torch.float64, device=device).repeat(members, 1)
    one_hot = torch.eye(TARGETS, dtype=torch.float32, device=device)
    features, prices = put(table.features), (put(table.open), put(table.close))
    return Market(features, *prices, put(table.years), put(table.linked), one_hot, costs)


def member_rows(table: MarketTable, folds: list[int], span: SpanName) -> tuple[np.ndarray, np.ndarray]:
    """int64 `[P, S]` first rows and decision counts of `span` for members given by their fold."""
    first, decisions = [], []
    for fold in folds:
        ranges = [table.rows(s, table.folds[fold].spans[span]) for s in range(len(table.symbols))]
        first.append([start for start, _ in ranges])
        decisions.append([max(stop - start - 1, 0) for start, stop in ranges])
    return np.array(first, np.int64), np.array(decisions, np.int64)


@dataclass(frozen=True)
class Walks:
    """State of the E market walks of each member, `[P, E]`, updated in place."""

    row: torch.Tensor  # int64
    target: torch.Tensor  # int64
    weight: torch.Tensor  # float64
    equity: torch.Tensor  # float64, 1 at the start of an episode
    age: torch.Tensor  # int64, bars since that start
    last: torch.Tensor  # int64, last row of the train span of the walk's symbol

    def tensors(self) -> dict[str, torch.Tensor]:
        return {f"walks/{name}": getattr(self, name) for name in ("row", "target", "weight", "equity", "age", "last")}


def make_walks(members: int, environments: int, device: torch.device) -> Walks:
    def zeros(dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(members, environments, dtype=dtype, device=device)

    long, double = torch.int64, torch.float64
    return Walks(zeros(long), zeros(long), zeros(double), zeros(double), zeros(long), zeros(long))


def restart(walks: Walks, spans: TrainSpans, where: torch.Tensor, u: torch.Tensor) -> None:
    """Put the walks marked by bool `where` `[P, E]` on a uniformly drawn train bar, flat and with equity 1.

    `u` float32 `[P, E]` in [0, 1).
    """
    count = spans.count[spans.fold][:, None]
    drawn = torch.minimum((u.double() * count).long(), count - 1)
    fold = spans.fold[:, None]
    for tensor, starts in ((walks.row, spans.rows), (walks.last, spans.last)):
        tensor.copy_(torch.where(where, starts[fold, drawn], tensor))
    for tensor in (walks.target, walks.weight, walks.age):
        tensor.masked_fill_(where, 0)
    walks.equity.masked_fill_(where, 1.0)


def advance(
    market: Market, walks: Walks, choice: torch.Tensor, episode_bars: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One bar for every walk. Returns log-equity change float64, flags int64 and `ended` bool, all `[P, E]`.

    Bankruptcy terminates: nothing to bootstrap from. The end of the span, a hole in the data and `episode_bars` `[P]`
    truncate.
    """
    reward = torch.empty_like(walks.equity)
    bankrupt = torch.zeros_like(walks.row, dtype=torch.int32)
    nk.market_step(
        market.open,
        market.close,
        market.years,
        walks.row,
        walks.target,
        walks.weight,
        walks.equity,
        choice,
        market.costs,
        reward,
        bankrupt,
    )
    walks.age.add_(1)
    terminated = bankrupt != 0
    out_of_data = (walks.row >= walks.last) | ~market.linked[walks.row]
    truncated = ~terminated & (out_of_data | (walks.age >= episode_bars[:, None]))
    flags = terminated.long() * TERMINATED + truncated.long() * TRUNCATED
    return reward, flags, terminated | truncated
