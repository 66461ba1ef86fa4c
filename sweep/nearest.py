"""The closest known name to one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The closest of `known` to `name`, or None when nothing is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or an empty string when nothing is close."""
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else ""
