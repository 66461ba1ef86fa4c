"""Hours to a settled verdict: the formula on small numbers, and the units on the published table."""

from __future__ import annotations

import pytest
from verdict_hours import Way, hours, parse, report, units_needed, ways

from analysis.rules import VerdictRules

ROWS = [
    {"rival": name, "members": members, "precision": "tf32", "median": rate}
    for name, members, rate in (
        ("full", 1, 500.0), ("full-diagnosed", 1, 250.0), ("full", 64, 8000.0), ("full-diagnosed", 64, 4000.0),
        ("full", 256, 10000.0), ("full-diagnosed", 256, 5000.0), ("full-processes-16-eager", 16, 400.0),
    )
]  # fmt: skip


@pytest.mark.parametrize(("d", "units"), [(0.4, 90), (0.5, 60), (0.6, 40), (0.8, 27), (1.0, 18), (1.5, 12)])
def test_units_are_those_that_decided_80_percent_of_the_simulated_sweeps(d: float, units: int) -> None:
    """reference/statistics.md A10b."""
    assert units_needed(d, 1.0, 0.8, VerdictRules(), 1) == units


def test_an_effect_that_the_schedule_does_not_settle_needs_no_number_of_units() -> None:
    assert units_needed(0.1, 1.0, 0.8, VerdictRules(), 1) is None
    with pytest.raises(SystemExit, match="not settled"):
        list(report(parse(["--effect", "0.1", "--sd", "1"]), ROWS))


def test_more_gems_need_no_fewer_units() -> None:
    assert units_needed(0.8, 1.0, 0.8, VerdictRules(), 6) == 40


def test_hours_by_hand() -> None:
    """100 members x 3600 updates at 100 a second; a tenth of them costs three times as much."""
    alone = Way("alone", 1, 100.0, 3.0, at_a_time=16)
    assert hours(alone, 100, 3600, 0.1) == pytest.approx(1.2)
    assert hours(alone, 100, 3600, 0.0, start_up=36.0) == pytest.approx(1.0 + 100 * 36.0 / 16 / 3600)
    pack = Way("pack", 64, 800.0, 1.0)
    assert hours(pack, 100, 3600, 0.5) == pytest.approx(2 * 64 / 800), "the last pack is as slow as a full one"


def test_rates_and_costs_come_from_the_measurements() -> None:
    separate, small, large = ways(ROWS, [64, 256], "full-processes-16-eager")
    assert (separate.pack, separate.rate, separate.cost, separate.at_a_time) == (1, 400.0, 2.0, 16)
    assert (small.pack, small.rate, small.cost) == (64, 8000.0, 2.0)
    assert large.rate == 10000.0
    with pytest.raises(SystemExit, match="no row full with 32"):
        list(ways(ROWS, [32], "full-processes-16-eager"))


def test_the_report_shows_its_inputs() -> None:
    options = parse(["--units", "10", "--seeds", "3", "--folds", "2", "--updates", "1000", "--gems", "2"])
    text = "\n".join(report(options, ROWS))
    assert "members: 180 = 10 units x 3 arms x 3 seeds x 2 folds" in text
    assert "1,000 updates a member" in text
    assert "left out: evaluation" in text
    seeds = "\n".join(report(parse(["--units", "10", "--unit", "seed"]), ROWS))
    assert "members: 40 = 10 units x 2 arms x 2 folds" in seeds
    assert "600 updates a member" in seeds
