"""The data sets that come with the package, by name. Their licences stand beside them in `bundled/`."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "bundled"

# AAPL, IBM and MSFT, daily, 2000-03-01..2013-03-01. Chosen years later because they survived: see LICENSE.txt.
BUNDLED: dict[str, Path] = {"us-daily": _FOLDER / "us-daily.csv.gz"}
