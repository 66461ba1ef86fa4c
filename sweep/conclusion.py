"""How a command that ran trials ends: the table, the report, the failures, the way on, the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sweep.errors import SweepError

if TYPE_CHECKING:
    from sweep.run import Outcome


def conclude(outcome: Outcome) -> None:
    """The table, the failures, the way on, and the exit code of a launch."""
    print_report_of(outcome.folder)
    for key, error in outcome.failed.items():
        print(f"failed: {key}: {error} (log: {outcome.folder / 'trials' / key / 'log.txt'})")
    if outcome.failed:
        print(f"when the cause is mended, run them again with: gemsweep resume {outcome.folder}")
    waiting = len(set(outcome.left) - set(outcome.failed))
    if waiting:
        trials = "1 trial is" if waiting == 1 else f"{waiting} trials are"
        print(f"{trials} not finished; go on with: gemsweep resume {outcome.folder}")
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def print_report_of(folder: Path) -> None:
    from analysis.load import load
    from analysis.report import write_report
    from analysis.tables import print_report

    experiment = load(folder)
    print_report(experiment)
    try:
        print(f"report: {write_report(experiment)}")
    except OSError as error:
        path = error.filename or folder
        raise SweepError(f"{path}: the report cannot be written ({error.strerror or error})") from None
