"""Greedy evaluation of every member over a span: one batched forward over bars x last targets, then a sequential scan.

The observed state is (bar, last target), so the greedy choice in every state can be computed at once; the scan then
walks the bars in order with the account in float64. The result equals walking bar by bar and asking the network each
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import numba_kernels as nk
from trainer.data.folds import SpanName
from trainer.explore import greedy
from trainer.market import member_rows, target_of
from trainer.network import SpectralNorm, forward
from trainer.pack import Pack
from trainer.params import TARGETS

CHUNK_STATES = 4096  # (bar, last target) states of a member in one forward: bounds memory and stays in cache


@dataclass(frozen=True)
class Walk:
    """One member's greedy walk over a span, all symbols pooled with equal weights, bar by bar of the timeline.

    `returns`, `exposure` and `turnover` (traded notional / equity) are float64 `[bars]`; the first bar of the span only
    decides and has no return, so they belong to timeline[start + 1 : stop].
    """

    returns: np.ndarray
    exposure: np.ndarray
    turnover: np.ndarray
    targets: np.ndarray  # int8, executed targets of all symbols below each other
    bankrupt: bool


def greedy_choices(pack: Pack, first: torch.Tensor, decisions: torch.Tensor) -> torch.Tensor:
    """int8 `[P, S, T, 7]`: greedy target at every bar of each symbol for each last target; T = most decisions."""
    longest, symbols = int(decisions.max()), first.shape[1]
    step = torch.arange(longest, device=pack.device)
    row = first[..., None] + torch.minimum(step, (decisions[..., None] - 1).clamp_min(0))
    states = row.flatten(1)[..., None].expand(-1, -1, TARGETS).flatten(1)
    last = torch.arange(TARGETS, device=pack.device).repeat(symbols * longest).expand(pack.size, -1)
    norm, choices = pack.online.norm(), []
    for begin in range(0, states.shape[1], CHUNK_STATES):
        part = slice(begin, begin + CHUNK_STATES)
        choices.append(_choose(pack, norm, states[:, part], last[:, part]))
    return torch.cat(choices, 1).view(pack.size, symbols, longest, TARGETS)


def _choose(pack: Pack, norm: SpectralNorm | None, row: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """int8 `[P, N]`: greedy target in some states. On its own, so that no chunk's activations outlive it."""
    act = forward(pack.online.weights, norm, pack.market.observe(row, last))
    return target_of(*greedy(act, pack.support)).to(torch.int8)


def evaluate(pack: Pack, span: SpanName) -> list[Walk]:
    """Walk `span` of each member's fold greedily; one `Walk` a member."""
    folds = [m.fold for m in pack.spec.members]
    arrays = member_rows(pack.table, folds, span)
    first, decisions = (torch.from_numpy(a).to(pack.device) for a in arrays)
    choice = greedy_choices(pack, first, decisions)
    shape = choice.shape[:3]
    returns = torch.zeros(shape, dtype=torch.float64, device=pack.device)
    target = torch.zeros(shape, dtype=torch.int8, device=pack.device)
    turnover, bankrupt = torch.zeros_like(returns), torch.zeros(shape[:2], dtype=torch.int32, device=pack.device)
    market = pack.market
    nk.evaluation_scan(
        market.open,
        market.close,
        market.years,
        first,
        decisions,
        choice,
        market.costs,
        returns,
        target,
        turnover,
        bankrupt,
    )
    scanned = [t.cpu().numpy() for t in (returns, target, turnover, bankrupt)]
    return [_pool(pack, span, member, *arrays, *(a[member] for a in scanned)) for member in range(pack.size)]


def _pool(pack: Pack, span: SpanName, member: int, first, decisions, returns, target, turnover, bankrupt) -> Walk:
    """Equal-weight mean over the symbols that have a bar at a position of the timeline."""
    table, bounds = pack.table, pack.table.folds[pack.spec.members[member].fold].spans[span]
    bars = bounds.stop - bounds.start - 1
    sums, count = np.zeros((3, bars)), np.zeros(bars)
    exposures, targets = np.array(nk.EXPOSURES), []
    for symbol, (begin, length) in enumerate(zip(first[member], decisions[member], strict=True)):
        place = table.position[begin + 1 : begin + 1 + length] - bounds.start - 1
        values = (returns[symbol], exposures[target[symbol]], turnover[symbol])
        for total, value in zip(sums, values, strict=True):
            np.add.at(total, place, value[:length])
        np.add.at(count, place, 1.0)
        targets.append(target[symbol, :length])
    mean = np.divide(sums, count, out=np.zeros_like(sums), where=count > 0)
    return Walk(mean[0], mean[1], mean[2], np.concatenate(targets), bool(bankrupt.any()))
