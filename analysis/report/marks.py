"""Badges and phrases that several sections share."""

from __future__ import annotations

import math

from analysis.page import Markup, badge, element
from analysis.text import ABSENT, percent, percent_interval, signed, signed_interval
from analysis.verdict import EffectLook, Verdict

KINDS = {"DELETE": "bad", "INVALID": "bad", "MORE TRIALS": "warn", "WIRE": "good"}
STATES = {"done": "good", "failed": "bad", "running": "warn", "waiting": "", "damaged": "bad"}
PATH_WORDS = (
    "Every run sees the same path of prices, and the luck of that path is not inside the repeated interval, which "
    "takes configurations as its sample. The time-block interval draws blocks of bars again, the same for both runs of "
    "a pair: it holds the path and nothing else, and decides nothing."
)


def verdict_badge(verdict: Verdict) -> Markup:
    """The label in its colour, the grade beside it, and whether more evidence may change it."""
    rest = verdict.title.removeprefix(verdict.label).strip()
    open_ = " provisional" if verdict.provisional else ""
    words = element("span", f" {rest}", class_="muted")
    return Markup(badge(verdict.label, KINDS[verdict.label]) + words + element("span", open_, class_="sub"))


def numbers(value: str, interval: str) -> Markup:
    """A number with its interval below."""
    return Markup(value + element("span", interval, class_="sub")) if value != ABSENT else Markup(ABSENT)


def effect_text(look: EffectLook | None) -> Markup:
    """Mean difference in Sharpe with its repeated interval; n/a before the first look of stage 2."""
    if look is None:
        return Markup(ABSENT)
    return numbers(signed(look.estimate), signed_interval(look.low, look.high))


def size_text(verdict: Verdict) -> Markup:
    """Size with its interval at the look that settled the signal."""
    look = verdict.signal
    return numbers(percent(look.estimate), percent_interval(look.low, look.high)) if look else Markup(ABSENT)


def path_text(verdict: Verdict) -> str:
    """The time-block interval."""
    low, high = verdict.path_interval
    return signed_interval(low, high) if math.isfinite(low) else ABSENT


def closest(verdict: Verdict) -> str:
    """The largest R^2 of the existing features that could be tested, and whose."""
    tested = [result for result in verdict.redundancy if not result.untested]
    if not tested:
        return ABSENT
    best = max(tested, key=lambda result: result.value)
    return f"{best.value:+.2f} {best.feature}"


def run_and_needed(verdict: Verdict) -> str:
    """Units behind the verdict, and how many would decide."""
    return f"{verdict.n}" + (f" of {verdict.needed} needed" if verdict.needed else "")
