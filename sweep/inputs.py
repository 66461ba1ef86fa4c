"""Are the bars and the gems still those that the plan was made from? A trial must not mix two of either."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from sweep.errors import ResumeError
from trainer.config import DataConfig
from trainer.data.errors import DataError


def check_inputs(plan: Mapping[str, Any], data: DataConfig) -> None:
    """Errors: ResumeError naming what changed since the plan was written, and the way out."""
    from trainer.data.source import load_table

    try:
        found = load_table(data).sha256
    except DataError as error:
        raise ResumeError(f"cannot resume: {error}") from None
    planned = plan["data"]["sha256"]
    if found != planned:
        raise _changed(f"the bars of {data.source}", planned, found)
    for gem in plan["gems"]:
        if gem["sha256"]:
            _check_gem(gem)


def _check_gem(gem: Mapping[str, Any]) -> None:
    path = Path(gem["reference"].rpartition(":")[0])
    if not path.is_file():
        raise ResumeError(f"cannot resume: the file of gem {gem['name']}, {path}, is gone; put it back")
    found = digest(path)
    if found != gem["sha256"]:
        raise _changed(f"gem {gem['name']} in {path}", gem["sha256"], found)


def digest(path: Path) -> str:
    """sha256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def _changed(what: str, planned: str, found: str) -> ResumeError:
    return ResumeError(
        f"cannot resume: {what} changed since the plan was made (sha256 {planned[:12]}, now {found[:12]}); "
        f"put back what it was, or start a new sweep under another name"
    )
