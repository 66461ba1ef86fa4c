"""Find the columns of a bar by their usual names, whatever their case and spacing."""

from __future__ import annotations

import re

import pandas as pd

from trainer.data.errors import DataError
from trainer.data.read import RawTable

PRICES = ("open", "high", "low", "close")
ALIASES: dict[str, tuple[str, ...]] = {
    "time": ("date", "time", "datetime", "timestamp", "ts", "opentime", "tsevent", "unix", "indexlevel0"),
    "symbol": ("symbol", "ticker", "sym"),
    "open": ("open", "o", "openprice", "priceopen"),
    "high": ("high", "h", "highprice", "pricehigh"),
    "low": ("low", "l", "lowprice", "pricelow"),
    "close": ("close", "c", "closeprice", "priceclose"),
    "adjusted": ("adjclose", "adjustedclose", "closeadj", "closeadjusted"),
    "volume": ("volume", "vol", "v"),
}
_ROLES = {alias: role for role, aliases in ALIASES.items() for alias in aliases}
_REQUIRED = ("time", *PRICES)


def name_columns(table: RawTable) -> pd.DataFrame:
    """The columns of `table` that make a bar, under their roles (the keys of ALIASES); volume, adjusted close and
    symbol may be absent. Raises DataError when a role has no column or more than one."""
    found: dict[str, list[int]] = {}
    for position, label in enumerate(table.cells.columns):
        role = _ROLES.get(_normal(label))
        if role is not None:
            found.setdefault(role, []).append(position)
    labels = [str(label) for label in table.cells.columns]
    _check(found, labels, table.name)
    named = table.cells.iloc[:, [positions[0] for positions in found.values()]].copy()
    named.columns = pd.Index(list(found), dtype=object)
    return named


def _normal(label: object) -> str:
    return re.sub(r"[\s_.<>\[\]\"'\ufeff-]", "", str(label)).lower()


def _check(found: dict[str, list[int]], labels: list[str], name: str) -> None:
    missing = [role for role in _REQUIRED if role not in found]
    if missing:
        known = "; ".join(f"{role}: {', '.join(ALIASES[role])}" for role in missing)
        raise DataError(
            f"{name}: no column for {', '.join(missing)} among {', '.join(labels)[:200]!r}. Accepted names: {known}"
        )
    for role, positions in found.items():
        if len(positions) > 1:
            several = " and ".join(repr(labels[position]) for position in positions)
            raise DataError(f"{name}: columns {several} both read as {role}; keep one")
