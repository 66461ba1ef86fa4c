"""The trials, best objective first, each with the command that runs it again; and what the words mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.load import Experiment
from analysis.page import Column, Markup, badge, definitions, element, muted, section, table
from analysis.report.marks import STATES
from analysis.report.material import Material
from analysis.tables import debug_command, ranked_trials, status_line, varied_settings
from analysis.text import duration, mean_and_sd, plain, setting, signed, signed_interval

ABOUT = (
    "Best objective first (IQM of validation Sharpe); trials of which at most half of the validation walks are ok "
    "come after the others. Sharpe is the judge score over the seeds of the base arm."
)


def trials(material: Material) -> Markup:
    """The section."""
    experiment = material.experiment
    columns = [
        Column("trial", "text"), Column("status"), Column("objective", "n"), Column("Sharpe ± sd", "n"),
        Column("[lo, hi]", "n"), Column("HAC se", "n"), Column("epochs", "n"), Column("time", "n"),
    ]  # fmt: skip
    ranked = ranked_trials(experiment).to_dict("records")
    settings = varied_settings(experiment)
    rows = [_row(row, material.pages) for row in ranked]
    footers = [_footer(experiment, row, settings) for row in ranked]
    return section("Trials", muted(ABOUT), table(columns, rows, footers), anchor="trials")


def _row(row: Mapping[Any, Any], pages: Mapping[str, str]) -> tuple[object, ...]:
    key = element("code", row["trial"])
    if row["trial"] in pages:
        key = element("a", key, href=pages[row["trial"]])
    return (
        key,
        badge(row["status"], STATES[row["status"]]),
        signed(row["objective"]),
        mean_and_sd(row["sharpe"], row["sharpe_var"]),
        signed_interval(row["sharpe_lo"], row["sharpe_hi"]),
        plain(row["sharpe_se"]),
        f"{max(row['epochs_recorded'], 0)} of {row['epochs_planned']}",
        duration(row["seconds"]),
    )


def _footer(experiment: Experiment, row: Mapping[Any, Any], settings: list[str]) -> Markup:
    values = ", ".join(f"{name.removeprefix('config/')} {setting(row[name])}" for name in settings)
    unusual = element("div", status) if (status := status_line(row)) else ""
    error = element("div", f"{row['cause']}: {row['error']}") if row["error"] else ""
    command = element("code", debug_command(experiment, row["trial"]))
    return element("div", element("div", values, class_="muted"), unusual, error, command)


def glossary(material: Material) -> Markup:
    """How to read the page."""
    periods = material.experiment.periods_per_year
    return section("How to read this", definitions(_words(periods)), anchor="words")


def _words(periods: float) -> list[tuple[object, object]]:
    return [
        ("Sharpe", f"mean / standard deviation (ddof 1) of net returns per bar, times √{periods:.1f} (bars a year)"),
        ("score", "Sharpe of a run's judge spans, folds concatenated, averaged over the parameters of the last epochs"),
        ("floor", "a run that froze or went bankrupt scores -3; a run that never trades scores 0"),
        (
            "status",
            "bankrupt, short, no trades, flat: a convention, not an estimate; implausible: beyond ±5, needs a look",
        ),
        ("HAC se", "standard error with Bartlett weights: what sampling of these bars alone gives one run"),
        ("interval", "repeated confidence interval: holds at every look together (Lan-DeMets, Pocock type)"),
        ("unit", "verdicts count configurations: members of one configuration are not independent"),
        ("not inside", "all runs share one market path; no repeated interval covers another path"),
        ("probed, wired", "the gem is computed and measured; its gradient is also added to the training, at its dose"),
        ("candidate", "the gradient is there; whether wiring it helps is for the wired arm to show"),
    ]
