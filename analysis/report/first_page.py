"""The head of the page: what was found, in one sentence, and whether it can be trusted, in a word for each question."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.collapse import alarms
from analysis.page import Markup, badge, contents, element, facts, muted, note
from analysis.report.material import Material
from analysis.report.trust import chips
from analysis.report.verdict_table import summary

SIGNAL_ONLY = "Only the signal was judged: no gem has a look at wired runs yet, so nothing here says that wiring helps."


def first_page(material: Material, sections: Sequence[tuple[str, str]]) -> Markup:
    """`sections`: (anchor, words) of what follows."""
    experiment = material.experiment
    label = element("p", badge(experiment.label, "warn")) if experiment.label else ""
    notes = [note("alarm", f"Damaged: {problem}") for problem in experiment.problems]
    notes += [note("alarm", f"{alarm.line()} ({alarm.meaning})") for alarm in alarms(experiment)]
    return element(
        "header", element("h1", experiment.name), label, element("p", element("strong", headline(material))),
        muted(_size(material)), facts(chips(material)), *notes, contents(sections),
    )  # fmt: skip


def headline(material: Material) -> str:
    """What came out, and what was not judged at all."""
    if material.confirmation:
        found = material.confirmation
        return f"Hold-out opened for {', '.join(found.gems)}: {found.label}."
    if not material.verdicts:
        return "Nothing has been judged: no gem has been measured yet."
    judged = any(found.effect_looks for found in material.verdicts)
    return f"{summary(material)}." + ("" if judged or material.rules.policy == "seed" else f" {SIGNAL_ONLY}")


def _size(material: Material) -> str:
    experiment = material.experiment
    counts = experiment.trials["status"].value_counts().sort_index()
    states = ", ".join(f"{count} {status}" for status, count in counts.items())
    scores = experiment.scores[experiment.scores["arm"] == "base"]
    sides = scores["config"].nunique(), scores["seed"].nunique(), scores["folds"].max()
    shape = "{} configurations × {} seeds × {} folds".format(*sides)
    return f"{len(experiment.trials)} trials ({states}): {shape}, base arm."
