"""Markets whose best policy is known: a leaked return, an AR(1) process, pure noise, and real bars in random order.

Bars are hourly, open = previous close, and the return of a bar has standard deviation `VOLATILITY` (19 % a year). A
decision at the close of bar t fills at the open of bar t + 1, which is the same price, so the position earns exactly
close_{t+1} / close_t - 1. All markets go through the real loader, features and folds.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from trainer.config import DataConfig, FoldConfig
from trainer.data.bars import load_bars
from trainer.data.features import FEATURES, WARM_UP
from trainer.data.table import MarketTable, market_table

VOLATILITY = 0.002
LEAK = FEATURES.index("overnight_return")  # 0 on every bar of these markets, so the leak displaces nothing
PURGE, EMBARGO = 10, 0
GAP = PURGE + EMBARGO


def spans(train: int, validation: int, judge: int, count: int = 1) -> tuple[DataConfig, int]:
    """Folds with spans of exactly so many bars, and the bars of a market that holds them and the warm-up.

    Judge spans are disjoint. With `train <= validation + judge` so are the train spans: each fold is then a market of
    its own, and members that differ in the fold are independent.
    """
    usable = train + count * (validation + judge + 2 * GAP)
    shares = {"train": train / usable, "validation": validation / usable, "judge": judge / usable}
    folds = FoldConfig(count=count, mode="rolling", holdout=0.0, purge=PURGE, embargo=EMBARGO, **shares)
    return DataConfig(source="synthetic", folds=folds), usable + WARM_UP


def bars_of(log_returns: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Hourly bars with these log returns; the shadows are noise and know nothing."""
    close = 100.0 * np.exp(np.cumsum(log_returns))
    opened = np.append(100.0, close[:-1])
    above, below = np.exp(np.abs(rng.normal(0.0, 0.4 * VOLATILITY, (2, len(close)))))
    stamps = pd.date_range("1990-01-01", periods=len(close), freq="h", tz="UTC")
    high, low = np.maximum(opened, close) * above, np.minimum(opened, close) / below
    return pd.DataFrame({"timestamp": stamps, "open": opened, "high": high, "low": low, "close": close})


def ar1_returns(phi: float, bars: int, rng: np.random.Generator) -> np.ndarray:
    """Stationary Gaussian AR(1) log returns about -VOLATILITY^2 / 2: with phi = 0 the price is a martingale."""
    noise = rng.normal(0.0, VOLATILITY * np.sqrt(1.0 - phi * phi), bars)
    noise[0] /= np.sqrt(1.0 - phi * phi)
    returns = noise.copy()
    for t in range(1, bars):
        returns[t] += phi * returns[t - 1]
    return returns - 0.5 * VOLATILITY**2


def ar1_market(phi: float, data: DataConfig, bars: int, seed: int) -> MarketTable:
    """One symbol with AR(1) returns; the feature `return_1` holds the last one."""
    rng = np.random.default_rng(seed)
    return market_table(load_bars(bars_of(ar1_returns(phi, bars, rng), rng)), data, PURGE)


def leak_market(data: DataConfig, bars: int, seed: int) -> MarketTable:
    """Independent returns; the feature `LEAK` of bar t is the log return of bar t + 1 in standard deviations."""
    table = ar1_market(0.0, data, bars, seed)
    features = table.features.copy()
    features[:, LEAK] = np.append(np.diff(np.log(table.close)), 0.0) / VOLATILITY
    return dataclasses.replace(table, features=features)


def permuted_market(source: str, copies: int, data: DataConfig, seed: int) -> MarketTable:
    """The bars of `source` in random order: `copies` independent orders of each symbol, named AAPL.0, AAPL.1, ...

    A bar keeps its shape relative to the close before it and its volume; the dates stay where they are. What is left to
    learn is the mean.
    """
    rng = np.random.default_rng(seed)
    frames = [
        _permuted(frame, rng).assign(symbol=f"{symbol}.{copy}")
        for symbol, frame in load_bars(source).frames.items()
        for copy in range(copies)
    ]
    return market_table(load_bars(pd.concat(frames, ignore_index=True)), data, data.folds.purge)


def _permuted(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    prices = frame[["open", "high", "low", "close"]].to_numpy()
    order = 1 + rng.permutation(len(frame) - 1)
    shape = prices[order] / prices[order - 1, 3:]
    before = prices[0, 3] * np.append(1.0, np.cumprod(shape[:-1, 3]))
    columns = dict(zip(("open", "high", "low", "close"), (shape * before[:, None]).T, strict=True))
    return pd.DataFrame({"timestamp": frame.index[1:], **columns, "volume": frame["volume"].to_numpy()[order]})


def bar_returns(table: MarketTable, fold: int, symbol: int = 0) -> np.ndarray:
    """Simple close-to-close returns that positions of the judge span earn, aligned with `returns/judge`."""
    start, stop = table.rows(symbol, table.folds[fold].spans["judge"])
    return np.diff(table.close[start:stop]) / table.close[start : stop - 1]


def sign_policy_sharpe(phi: float) -> float:
    """Per-bar Sharpe ratio of holding sign(r_t) in a Gaussian AR(1) market with small returns and no costs.

    r_{t+1} = phi r_t + e with Var r = s^2. The policy earns x = sign(r_t) r_{t+1}: E x = phi E|r_t| = phi s sqrt(2/pi),
    E x^2 = s^2, so the ratio is a / sqrt(1 - a^2) with a = phi sqrt(2/pi); 0.0800 for phi = 0.1.
    """
    mean = phi * np.sqrt(2.0 / np.pi)
    return float(mean / np.sqrt(1.0 - mean * mean))
