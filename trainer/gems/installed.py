"""Gems of installed packages: entry points of the group `gemsweep.gems`. Looking them up imports no gem, no torch."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "gemsweep.gems"


def installed_gems() -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name, in the order of the names; several for one name when packages disagree about it."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, {}).setdefault(point.value, point)  # one package may be listed twice
    return {name: tuple(found[name].values()) for name in sorted(found)}
