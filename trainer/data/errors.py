"""The one error that bad market data raises."""

from __future__ import annotations


class DataError(ValueError):
    """Market data that cannot be used as given; the message names the place and the way out."""
