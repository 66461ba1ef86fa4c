"""Causal, self-normalising features of a bar series: 25 columns of about unit scale.

Row t uses bars 0..t only, and every scale in it is a running one, so a single table serves all folds. One-bar moves are
measured in the volatility known before the bar; whatever is a sum of returns is divided by the standard deviation it
would have were returns independent. The constants in `_SCALE` bring the bounded indicators to unit scale on daily bars.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

FEATURES: tuple[str, ...] = (
    "return_1",
    "return_5",
    "return_10",
    "return_21",
    "return_63",
    "overnight_return",
    "intraday_return",
    "upper_shadow",
    "lower_shadow",
    "close_location",
    "range_ratio",
    "volatility_ratio",
    "parkinson_ratio",
    "macd_12_26",
    "macd_32_96",
    "rsi_14",
    "stochastic_14",
    "bollinger_20",
    "donchian_55",
    "drawdown_63",
    "efficiency_ratio_10",
    "autocorrelation",
    "volume_ratio",
    "on_balance_volume_20",
    "money_flow_20",
)
WARM_UP = 128  # bars before every window is filled and the slowest average has settled
CLIP = 5.0  # features lie in [-CLIP, CLIP]

_SMALLEST = 1e-8  # of a volatility or spread in log price: below it a series counts as constant
_RISKMETRICS = 0.06  # 1 - 0.94, the daily decay of RiskMetrics (J.P. Morgan 1996)


def compute_features(frame: pd.DataFrame) -> np.ndarray:
    """float64 [T, 25] in the order of FEATURES, from columns open, high, low, close and volume. The first WARM_UP
    rows are NaN, all others finite in [-CLIP, CLIP]. Unknown or zero volume gives volume features of 0."""
    log = {name: np.log(frame[name].reset_index(drop=True)) for name in ("open", "high", "low", "close")}
    volume = frame["volume"].reset_index(drop=True).astype(np.float64)
    returns = log["close"].diff()
    volatility = _root_mean_square(returns, _RISKMETRICS)
    columns = {
        **_returns(log, returns, volatility),
        **_candle(log, volatility),
        **_volatility(log, returns),
        **_trend(log, returns, volatility),
        **_oscillators(log, returns, volatility),
        **_volume(log, returns, volume),
    }
    table = np.column_stack([columns[name].to_numpy() for name in FEATURES])
    table = np.clip(table, -CLIP, CLIP)
    table[:WARM_UP] = np.nan
    return table


def _returns(log: dict[str, pd.Series], returns: pd.Series, volatility: pd.Series) -> dict[str, pd.Series]:
    known = volatility.shift()
    columns = {
        "return_1": _ratio(returns, known),
        "overnight_return": _ratio(log["open"] - log["close"].shift(), known) * 2.0,
        "intraday_return": _ratio(log["close"] - log["open"], known),
    }
    for bars in (5, 10, 21, 63):
        columns[f"return_{bars}"] = _ratio(log["close"].diff(bars), volatility * np.sqrt(bars))
    return columns


def _candle(log: dict[str, pd.Series], volatility: pd.Series) -> dict[str, pd.Series]:
    known = volatility.shift()
    body_top, body_bottom = np.maximum(log["open"], log["close"]), np.minimum(log["open"], log["close"])
    span = log["high"] - log["low"]
    usual = span.ewm(alpha=_RISKMETRICS).mean().shift()
    return {
        "upper_shadow": _ratio(log["high"] - body_top, known) * 2.0,
        "lower_shadow": _ratio(body_bottom - log["low"], known) * 2.0,
        "close_location": _location(log["close"], log["low"], log["high"]) * 1.5,
        "range_ratio": _ratio(span - usual, usual) * 2.0,
    }


def _volatility(log: dict[str, pd.Series], returns: pd.Series) -> dict[str, pd.Series]:
    fast, slow = _root_mean_square(returns, 2 / 11), _root_mean_square(returns, 2 / 64)
    # Parkinson (1980), The Journal of Business 53, eq. 4: range variance in units of close-to-close variance.
    parkinson = _root_mean_square((log["high"] - log["low"]) / np.sqrt(4 * np.log(2)), 2 / 22)
    return {
        "volatility_ratio": _log_ratio(fast, slow) * 3.0,
        "parkinson_ratio": _log_ratio(parkinson, _root_mean_square(returns, 2 / 22)) * 4.0,
    }


def _trend(log: dict[str, pd.Series], returns: pd.Series, volatility: pd.Series) -> dict[str, pd.Series]:
    path = returns.abs().rolling(10).sum()
    products = _ratio(returns, volatility) * _ratio(returns, volatility).shift()
    rate = 2 / 64
    return {
        "macd_12_26": _macd(log["close"], volatility, 12, 26),
        "macd_32_96": _macd(log["close"], volatility, 32, 96),
        # Kaufman (1995), Smarter Trading; less its typical size on a random walk.
        "efficiency_ratio_10": _ratio(log["close"].diff(10).abs() - path / np.sqrt(10), path) * 4.0,
        # The mean of products of independent unit variables with this decay has variance rate / (2 - rate).
        "autocorrelation": products.ewm(alpha=rate).mean() / np.sqrt(rate / (2 - rate)),
    }


def _macd(price: pd.Series, volatility: pd.Series, fast: int, slow: int) -> pd.Series:
    """Difference of two exponential averages over the standard deviation it has on a random walk: price minus the
    average of decay d is the sum of d^(k+1) times the return k bars ago."""
    difference = price.ewm(span=fast).mean() - price.ewm(span=slow).mean()
    a, b = 1 - 2 / (fast + 1), 1 - 2 / (slow + 1)
    variance = a * a / (1 - a * a) + b * b / (1 - b * b) - 2 * a * b / (1 - a * b)
    return _ratio(difference, volatility * np.sqrt(variance))


def _oscillators(log: dict[str, pd.Series], returns: pd.Series, volatility: pd.Series) -> dict[str, pd.Series]:
    close = log["close"]
    low_14, high_14 = log["low"].rolling(14).min(), log["high"].rolling(14).max()
    low_55, high_55 = log["low"].rolling(55).min(), log["high"].rolling(55).max()
    mean, deviation = close.rolling(20).mean(), close.rolling(20).std()
    drawdown = close - close.rolling(63).max()
    return {
        "rsi_14": _relative_strength(returns, 14) * 4.0,
        "stochastic_14": _location(close, low_14, high_14) * 1.5,
        "bollinger_20": _ratio(close - mean, deviation),
        "donchian_55": _location(close, low_55, high_55) * 1.5,
        "drawdown_63": _ratio(drawdown, volatility * np.sqrt(63)) * 2.0,
    }


def _relative_strength(returns: pd.Series, bars: int) -> pd.Series:
    """Wilder's relative strength index, from [0, 100] to [-1, 1]."""
    gain = returns.clip(lower=0).ewm(alpha=1 / bars).mean()
    loss = (-returns).clip(lower=0).ewm(alpha=1 / bars).mean()
    return _ratio(gain - loss, gain + loss)


def _volume(log: dict[str, pd.Series], returns: pd.Series, volume: pd.Series) -> dict[str, pd.Series]:
    traded = np.log(volume.where(volume > 0))
    average = traded.ewm(span=20, ignore_na=True)
    surprise = _ratio(traded - average.mean().shift(), average.std().shift())
    shares = volume.fillna(0.0)
    total = shares.rolling(20).sum()
    signed = (np.sign(returns) * shares).rolling(20).sum()
    flow = (_location(log["close"], log["low"], log["high"]) * shares).rolling(20).sum()
    return {
        "volume_ratio": surprise.fillna(0.0),
        "on_balance_volume_20": _ratio(signed, total) * 4.0,
        "money_flow_20": _ratio(flow, total) * 6.0,
    }


def _root_mean_square(values: pd.Series, rate: float) -> pd.Series:
    return np.sqrt((values * values).ewm(alpha=rate).mean())


def _ratio(numerator: pd.Series, denominator: pd.Series) -> pd.Series:
    """A series that stands still gives 0 / smallest = 0, and the first move out of it a large value, to be clipped."""
    return numerator / denominator.clip(lower=_SMALLEST)


def _log_ratio(numerator: pd.Series, denominator: pd.Series) -> pd.Series:
    return np.log(numerator.clip(lower=_SMALLEST) / denominator.clip(lower=_SMALLEST))


def _location(value: pd.Series, low: pd.Series, high: pd.Series) -> pd.Series:
    """Where a value lies between two others, from -1 to 1."""
    return _ratio(2.0 * value - low - high, high - low)
