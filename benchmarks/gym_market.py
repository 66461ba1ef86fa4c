"""The market of the trainer as a Gymnasium environment: one walk, one bar a step.

Observation: the features of the bar and the one-hot last target, float32 `[features + 7]`. Action: the index of the
target exposure, 0 flat, 1..3 short and 4..6 long by thirds. Reward: log change of equity between two closes in train
volatilities, from the trainer's own account (`numba_kernels.market_step`). A step ends the episode as in
`trainer.market.advance`: bankruptcy terminates; the end of the train span, a hole in the data and `episode_bars`
truncate.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

import numba_kernels as nk
from trainer.config import MarketConfig
from trainer.data.table import MarketTable
from trainer.market import make_market, make_train_spans
from trainer.params import TARGETS


class MarketEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Walks over the train span of `fold`, each from a bar drawn uniformly, flat and with equity 1.

    `reset(options={"row": r})` starts at row r of the table instead and then only bankruptcy and the end of the
    symbol's rows end the walk, so that any span can be walked.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - the name and the form are gymnasium's

    def __init__(self, table: MarketTable, config: MarketConfig, *, fold: int, episode_bars: int) -> None:
        cpu = torch.device("cpu")
        self._market = make_market(table, config, 1, cpu)
        spans = make_train_spans(table, [fold], cpu)
        count = int(spans.count[fold])
        self._starts = np.stack([spans.rows[fold, :count].numpy(), spans.last[fold, :count].numpy()])
        self._features, self._linked = table.features, table.linked
        self._one_hot = np.eye(TARGETS, dtype=np.float32)
        self._scale = np.float32(1.0 / table.train_volatility(fold))
        self._episode_bars = episode_bars
        self._row, self._target, self._choice = (torch.zeros(1, 1, dtype=torch.int64) for _ in range(3))
        self._weight, self._equity, self._reward = (torch.zeros(1, 1, dtype=torch.float64) for _ in range(3))
        self._bankrupt = torch.zeros(1, 1, dtype=torch.int32)
        self._age, self._last, self._limit = 0, 0, 0
        width = self._features.shape[1] + TARGETS
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(TARGETS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if options and "row" in options:
            row, self._last, self._limit = int(options["row"]), len(self._features) - 1, len(self._features)
        else:
            row, self._last = self._starts[:, self.np_random.integers(self._starts.shape[1])].tolist()
            self._limit = self._episode_bars
        for tensor in (self._target, self._weight, self._bankrupt):
            tensor.zero_()
        self._row.fill_(row)
        self._equity.fill_(1.0)
        self._age = 0
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        market = self._market
        self._choice.fill_(int(action))
        nk.market_step(
            market.open,
            market.close,
            market.years,
            self._row,
            self._target,
            self._weight,
            self._equity,
            self._choice,
            market.costs,
            self._reward,
            self._bankrupt,
        )
        self._age += 1
        row, terminated = int(self._row.item()), bool(self._bankrupt.item())
        ended = row >= self._last or not self._linked[row] or self._age >= self._limit
        reward = float(np.float32(self._reward.item() * self._scale))
        return self._observe(), reward, terminated, bool(ended and not terminated), self._info()

    def _observe(self) -> np.ndarray:
        return np.concatenate((self._features[int(self._row.item())], self._one_hot[int(self._target.item())]))

    def _info(self) -> dict[str, Any]:
        return {"equity": self._equity.item()}
