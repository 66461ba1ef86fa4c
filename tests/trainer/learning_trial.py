"""Train the members of one pack on a table through the trial body, and measure what they learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from synthetic_markets import bar_returns

import numba_kernels as nk
from trainer.config import ArmConfig, DataConfig, Machine, Member, TrainerConfig, TrialSpec
from trainer.data.table import MarketTable
from trainer.evaluate import evaluate
from trainer.loop import run_trial
from trainer.pack import build_pack, load_state
from trainer.record import Checkpoint
from trainer.reporter import EpochRecord, State

ARM = ArmConfig(name="off")


class EndsReporter:
    """Keeps the columns of the untrained network, those of the last epoch and the last state."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}
        self.last: dict[str, Any] = {}
        self.state: State | None = None

    def resume(self) -> Checkpoint | None:
        return None

    def epoch(self, record: EpochRecord, state: State) -> bool:
        self.first = self.first or record.columns
        self.last, self.state = record.columns, state
        return False

    def finish(self, summary: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class Learned:
    """A finished trial: its spec and table, and the columns of the first and the last record."""

    spec: TrialSpec
    table: MarketTable
    first: dict[str, Any]
    last: dict[str, Any]
    checkpoint: Checkpoint

    def judge(self, number: str, *, untrained: bool = False) -> np.ndarray:
        """float64 `[P]`: a number of the greedy walk over the judge span."""
        return np.asarray((self.first if untrained else self.last)[f"eval/judge/{number}"], float)

    def per_bar_sharpe(self) -> np.ndarray:
        return self.judge("sharpe") / np.sqrt(self.table.periods_per_year)

    def per_bar_turnover(self, *, untrained: bool = False) -> np.ndarray:
        return self.judge("turnover", untrained=untrained) / self.table.periods_per_year

    def gross_sharpe(self) -> np.ndarray:
        """Per-bar Sharpe ratio `[P]` of exposure x return of a market with one symbol: before costs, 0 when flat."""
        earned = [
            np.asarray(exposure, float) * bar_returns(self.table, member.fold)
            for member, exposure in zip(self.spec.members, self.last["exposure/judge"], strict=True)
        ]
        return np.array([x.mean() / max(float(x.std(ddof=1)), 1e-12) for x in earned])


def train(
    table: MarketTable, data: DataConfig, trainer: TrainerConfig, members: tuple[tuple[int, int], ...], device="cpu"
) -> Learned:
    """`members` are (seed, fold)."""
    spec = TrialSpec(
        key="learning-b0",
        config_key="learning",
        data=data,
        trainer=trainer,
        arms=(ARM,),
        members=tuple(Member(arm=ARM.name, seed=seed, fold=fold) for seed, fold in members),
        machine=Machine(device=device),
    )
    seen = EndsReporter()
    run_trial(spec, seen, table)
    assert seen.state is not None
    return Learned(spec, table, seen.first, seen.last, seen.state())


def oracle_log_wealth(table: MarketTable, fold: int = 0) -> float:
    """Of holding the right sign at full size on every judge bar, without costs."""
    return float(np.log1p(np.abs(bar_returns(table, fold))).sum())


def random_turnover() -> float:
    """Traded exposure per bar of uniform directions and magnitudes: E|a - b| of two independent targets."""
    share = np.array([1 / 3] + [1 / 9] * 6)
    exposure = np.array(nk.EXPOSURES)
    return float(share @ np.abs(exposure[:, None] - exposure) @ share)


def timing_edges(learned: Learned) -> list[np.ndarray]:
    """Per member, float64 `[bars]`: what the judge walk earns beyond a buy-and-hold position of matched exposure.

    The benchmark of a bar holds the mean of the member's exposures in that symbol so far, and returns count from the
    symbol's mean over all bars: (w_t - mean(w_1..t-1)) (r_t - mean r), averaged over symbols. The weights are known
    before the bar, so with bars in random order the edge has mean 0, but for the 1 / bars of drawing without
    replacement; a constant position has none at all.
    """
    table, members = learned.table, learned.spec.members
    with torch.no_grad():
        pack = build_pack(learned.spec, table)
        load_state(pack, learned.checkpoint.tensors)
        walks = evaluate(pack, "judge")
    centred = [_centred_returns(table, symbol) for symbol in range(len(table.symbols))]
    return [_edge(table, member.fold, walk.targets, centred) for member, walk in zip(members, walks, strict=True)]


def _edge(table: MarketTable, fold: int, targets: np.ndarray, centred: list[np.ndarray]) -> np.ndarray:
    bounds = [table.rows(symbol, table.folds[fold].spans["judge"]) for symbol in range(len(table.symbols))]
    exposures = np.array(nk.EXPOSURES)[targets].reshape(len(bounds), -1)  # all symbols have every bar
    earned = [_active(w) * r[start + 1 : stop] for w, r, (start, stop) in zip(exposures, centred, bounds, strict=True)]
    return np.mean(earned, axis=0)


def _active(exposure: np.ndarray) -> np.ndarray:
    """Exposure less the mean of those before it; 0 on the first bar."""
    before = np.cumsum(exposure)[:-1] / np.arange(1, len(exposure))
    return np.append(0.0, exposure[1:] - before)


def _centred_returns(table: MarketTable, symbol: int) -> np.ndarray:
    """Simple returns by row of the table, less the symbol's mean; NaN outside the symbol."""
    rows = np.flatnonzero(table.symbol == symbol)
    returns = np.full(len(table.close), np.nan)
    returns[rows[1:]] = np.diff(table.close[rows]) / table.close[rows[:-1]]
    return returns - np.nanmean(returns)
