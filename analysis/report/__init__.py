"""The report: one HTML page that needs no network and no JavaScript, verdicts first. Equal data give equal bytes."""

from __future__ import annotations

from pathlib import Path

from analysis.load import Experiment
from analysis.report.material import gather
from analysis.report.sweep_page import sweep_page
from analysis.rules import VerdictRules
from trainer.record.files import write_atomic


def write_report(experiment: Experiment, path: Path | str | None = None, rules: VerdictRules | None = None) -> Path:
    """Write the page to `path` (default: report.html in the experiment folder) and return where it is."""
    target = Path(path) if path is not None else experiment.path / "report.html"
    write_atomic(target, sweep_page(gather(experiment, rules)).encode())
    return target
