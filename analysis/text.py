"""Numbers as text: with their sign where the sign matters, with their unit, and n/a for what is absent."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable

from rich.console import Console

WIDE = 240  # columns where nobody looks at a terminal: a pipe or a file folds nothing
GAP = "\u00a0"  # a number and its unit stay on one line
UNIT = f"{GAP}%"
ABSENT = "n/a"  # not measured, or not known; never the dash, which is for what cannot be
TIMES = 9.995  # shares from here on are told as multiples


def console() -> Console:
    """Where tables are printed: as wide as the terminal, and wide enough for whole lines where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=WIDE)


def percent(share: float) -> str:
    """A share with three significant digits: 12.3 %, 0.0123 %, 83.5 ×; 0 % at or below the floor of sizes."""
    if not math.isfinite(share):
        return ABSENT
    value = 100.0 * share
    if value <= 1.5e-10:
        return f"0{UNIT}"
    if share >= TIMES:
        return f"{share:.3g}{GAP}×"
    if value < 1e-3:
        return f"{value:.1e}{UNIT}"
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{digits}f}{UNIT}"


def percent_interval(low: float, high: float) -> str:
    """An interval of shares, both ends in one unit."""
    if high >= TIMES:
        return f"[{low:.3g}{GAP}×, {high:.3g}{GAP}×]"
    return f"[{percent(low)}, {percent(high)}]"


def signed(value: float, digits: int = 2) -> str:
    """A Sharpe ratio or a difference: +0.56, -1.20."""
    return f"{value:+.{digits}f}" if math.isfinite(value) else ABSENT


def plain(value: float, digits: int = 2) -> str:
    """A standard deviation, a variance, a count of something continuous."""
    return f"{value:.{digits}f}" if math.isfinite(value) else ABSENT


def mean_and_sd(mean: float, variance: float) -> str:
    """A mean with its standard deviation: +0.46 ± 0.21."""
    return f"{signed(mean)} ± {plain(variance**0.5)}" if math.isfinite(mean) else ABSENT


def signed_interval(low: float, high: float, digits: int = 2) -> str:
    """A range: [-0.20, +1.10]."""
    return f"[{signed(low, digits)}, {signed(high, digits)}]" if math.isfinite(low) else ABSENT


STATUS_WORDS = {"no_trades": "no trades", "implausible": "implausible (needs a look)"}


def count_statuses(statuses: Iterable[object]) -> str:
    """Counts by status, the most frequent first: 7 ok, 1 no trades; "" when all are ok or there is none."""
    counts = Counter(str(status) for status in statuses if isinstance(status, str) and status)
    if not set(counts) - {"ok"}:
        return ""
    return ", ".join(f"{count} {STATUS_WORDS.get(name, name)}" for name, count in counts.most_common())


def duration(seconds: float) -> str:
    """Seconds as 42 s, 3.5 min or 2.1 h."""
    if not math.isfinite(seconds):
        return ABSENT
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.1f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


def setting(value: object) -> str:
    """A hyperparameter: six significant digits, tuples joined with a dash."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return "-".join(setting(part) for part in value)
    return str(value)
