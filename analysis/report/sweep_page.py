"""The page of an experiment: verdicts first, then the nine questions in order, then the records behind them."""

from __future__ import annotations

from analysis.page import Markup, page
from analysis.report import (
    calm,
    configurations,
    drift,
    effect,
    headline,
    more,
    signal,
    training,
    trials,
    trust,
    verdict_table,
)
from analysis.report.first_page import first_page
from analysis.report.material import Material

CONTENTS = (
    ("verdicts", "1 Verdicts"), ("trust", "2 Trust"), ("effect", "3 Effect"), ("units", "4 Configurations"),
    ("looks", "5 Looks"), ("signal", "6 Signal"), ("calm", "7 Spread"), ("more", "8 More trials"),
    ("headline", "9 Headline trial"), ("arms", "Arms"), ("health", "Health"), ("gradients", "Gradients"),
    ("trials", "Trials"), ("words", "Words"),
)  # fmt: skip


def sweep_page(material: Material) -> str:
    """The whole HTML document."""
    return page(f"{material.experiment.name}: gem report", first_page(material, CONTENTS), *_sections(material))


def _sections(material: Material) -> list[Markup]:
    experiment = material.experiment
    return [
        verdict_table.verdict_table(material),
        trust.trust(material),
        effect.effect(material),
        configurations.configurations(material),
        drift.drift(material),
        signal.signal(material),
        calm.calm(material),
        more.more(material),
        headline.headline_trial(material),
        training.further(experiment),
        training.health(experiment),
        training.gradients(experiment),
        trials.trials(material),
        trials.glossary(material),
    ]
