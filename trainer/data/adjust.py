"""Scale prices for splits and dividends by the ratio of adjusted close to close."""

from __future__ import annotations

import numpy as np
import pandas as pd

from trainer.data.columns import PRICES

# A change of the ratio below one basis point is the rounding of the adjusted close, not a dividend.
_EVENT = 1e-4


def adjust_prices(bars: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Multiply open, high, low and close by adjusted / close, bar by bar; volume stays as traded. Returns the bars and
    the number of events of each symbol: bars at which the ratio moves. Splits are never guessed from returns: AAPL lost
    52 % in one real day."""
    factor = bars["adjusted"] / bars["close"]
    scaled = bars.copy()
    for name in PRICES:
        scaled[name] = bars[name] * factor
    scaled["close"] = bars["adjusted"]
    change = (factor / factor.groupby(bars["symbol"], sort=False).shift() - 1).abs()
    events = (change > _EVENT).groupby(bars["symbol"], sort=False).sum()
    return scaled, {str(symbol): int(count) for symbol, count in events.items()}


def is_adjustable(named: pd.DataFrame, adjust: str) -> bool:
    """Whether `adjust` asks for it and the source has an adjusted close."""
    return adjust == "auto" and "adjusted" in named and bool(np.any(named["adjusted"].notna()))
