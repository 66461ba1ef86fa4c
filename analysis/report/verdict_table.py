"""1. Which gems do I delete, wire, or run more? The table, and behind each row every piece of evidence."""

from __future__ import annotations

from collections import Counter

from analysis.page import Column, Markup, badge, bullets, details, element, muted, note, section, table
from analysis.report.marks import closest, effect_text, run_and_needed, size_text, verdict_badge
from analysis.report.material import Material
from analysis.tables import evidence_lines
from analysis.verdict import Verdict

TITLE = "Which gems do I delete, wire, or run more?"
OUTCOMES = {"CONFIRMED": "good", "NOT CONFIRMED": "bad", "INCOMPLETE": "warn"}


def verdict_table(material: Material) -> Markup:
    """The section."""
    found = material.verdicts
    content = [_confirmed(material)] if material.confirmation else []
    if not found:
        content.append(element("p", "No gem has been measured yet."))
    else:
        content += [_table(material), muted(_about(material)), *(_behind(material, verdict) for verdict in found)]
    return section(TITLE, *content, anchor="verdicts", number=1)


def summary(material: Material) -> str:
    """How many gems have which label: 1 WIRE, 2 DELETE."""
    counts = Counter(verdict.label for verdict in material.verdicts)
    return ", ".join(
        f"{counts[label]} {label}" for label in ("WIRE", "DELETE", "MORE TRIALS", "INVALID") if counts[label]
    )


def _confirmed(material: Material) -> Markup:
    """What the hold-out said, when this experiment opened it."""
    found = material.confirmation
    assert found is not None
    kind = {"good": "fine", "bad": "alarm"}.get(OUTCOMES[found.label], "")
    lines = element("span", "; ".join([", ".join(found.gems) + ": " + found.reason, *found.lines()[1:]]))
    return note(kind, badge(found.label, OUTCOMES[found.label]), " on the hold-out: ", lines)


def _table(material: Material) -> Markup:
    columns = [
        Column("gem", "text"), Column("verdict", "text"), Column("why", "text"), Column(material.units, "n"),
        Column("Sharpe, wired − probed", "n"), Column("size", "n"), Column("R² existing", "n"),
    ]  # fmt: skip
    rows = [
        (
            element("strong", verdict.gem), verdict_badge(verdict), verdict.reason, run_and_needed(verdict),
            effect_text(verdict.effect), size_text(verdict), _two_lines(closest(verdict)),
        )
        for verdict in material.verdicts
    ]  # fmt: skip
    return table(columns, rows)


def _two_lines(text: str) -> Markup:
    value, _, feature = text.partition(" ")
    return Markup(element("span", value) + (element("span", feature, class_="sub") if feature else ""))


def _about(material: Material) -> str:
    text = (
        "Intervals are repeated confidence intervals: they hold at every look together. Size is |coef × grad gem| / "
        "|c51_bs| over the slices that C51 reaches. R² existing: the feature that explains most of the gem."
    )
    unwired = [v.gem for v in material.verdicts if v.stage == 1 and v.label == "MORE TRIALS"]
    return text + (f" Whether it helps to wire {', '.join(unwired)} is not tested yet." if unwired else "")


def _behind(material: Material, verdict: Verdict) -> Markup:
    lines = evidence_lines(verdict, material.rules)
    return (
        details(Markup(element("strong", verdict.gem) + ": the evidence in words"), bullets(lines))
        if lines
        else Markup()
    )
