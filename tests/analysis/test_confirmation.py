"""The hold-out's one look: what confirms, what does not, and what is no evidence."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.confirmation import confirmation, ordinal
from analysis.rules import VerdictRules

PURPOSE = {"gems": ["g6_branch_indep"], "arm": "joint", "look": 1, "configurations": 6}


def experiment(differences, seeds=2, look=1, states=("done",) * 6, failed=()):
    """Scores of six configurations; `differences` by configuration, NaN for one whose joint runs were lost."""
    rows = []
    for config, difference in enumerate(differences):
        for seed in range(seeds):
            base = 0.5 + 0.3 * config + 0.1 * seed
            rows.append((f"c{config}", "base", seed, base, False))
            rows.append((f"c{config}", "joint", seed, base + difference, (config, seed) in failed))
    scores = pd.DataFrame(rows, columns=["config", "arm", "seed", "sharpe", "failed"])
    plan = {"confirmation": PURPOSE | {"look": look}, "verdict": {"rules": VerdictRules().to_dict()}}
    return SimpleNamespace(plan=plan, scores=scores, trials=pd.DataFrame({"status": states}))


GAIN = [0.3, 0.5, 0.4, 0.6, 0.2, 0.4]  # mean .4, sd .1414, se .0577; t(.95; 5) = 2.015: .4 -+ .1163


def test_a_gain_is_confirmed_with_its_interval():
    found = confirmation(experiment(GAIN))
    assert found.label == "CONFIRMED"
    assert (found.n, found.estimate) == (6, pytest.approx(0.4))
    assert found.interval == pytest.approx((0.2837, 0.5163), abs=1e-4)
    assert "+0.40 [+0.28, +0.52]" in found.lines()[0]
    assert "for the 1st time" in found.lines()[1]


def test_no_gain_is_not():
    assert confirmation(experiment([0.3, -0.3, 0.2, -0.1, 0.1, 0.0])).label == "NOT CONFIRMED"


def test_later_openings_ask_for_more():
    weak = [0.3, 0.5, -0.1, 0.3, 0.0, 0.1]  # mean .183, se .0910: t 2.015 -> .0000; t(.975) 2.571
    first, third = confirmation(experiment(weak)), confirmation(experiment(weak, look=3))
    assert third.interval[0] < first.interval[0]
    assert "for the 3rd time" in third.lines()[1]


def test_a_configuration_counts_once_however_many_seeds_it_has():
    few, many = confirmation(experiment(GAIN)), confirmation(experiment(GAIN, seeds=20))
    assert few.interval == pytest.approx(many.interval)


def test_what_a_machine_lost_is_absent_and_listed():
    found = confirmation(experiment([*GAIN[:5], np.nan]))
    assert found.n == 5
    assert found.lines()[-1] == "c5: no seed has a score in both arms"


def test_a_study_under_way_says_nothing_yet():
    found = confirmation(experiment(GAIN, states=("done",) * 5 + ("running",)))
    assert found.label == "INCOMPLETE"
    assert "another look" in found.reason


def test_failed_runs_are_counted_by_arm():
    assert confirmation(experiment(GAIN, failed={(0, 1), (3, 0)})).failed_joint == 2


def test_other_experiments_confirm_nothing():
    assert confirmation(SimpleNamespace(plan={})) is None


def test_ordinals():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 112)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "21st",
        "112th",
    ]
