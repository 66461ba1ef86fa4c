"""Experiments held against each other: pairs where there are some, equal n, no difference of incomparable things."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ttest_ind, ttest_rel
from synthetic_experiment import TIMELINE, plan_of, specs, write_trial
from test_differences import with_trainer

import analysis
from analysis.comparison import compare
from analysis.comparison_view import print_comparison
from analysis.gradient_shares import gradient_shares
from analysis.plain_values import json_text
from trainer.config import GemConfig
from trainer.record import write_plan, write_timeline
from trainer.sharpe import FLOOR

SHORT = {"configs": 3, "seeds": 2, "folds": 1, "epochs": 3}


def drifted(drift):
    """Adds `drift` times the launch number to every judge return, so that configurations differ in what they gain."""

    def change(table, epoch):
        scale = 1 + int(table["trial"][0][:2], 16) % 3
        return table | {"returns/judge": [np.asarray(row) + drift * scale for row in table["returns/judge"]]}

    return change


@pytest.fixture
def experiment(tmp_path):
    """Writes and loads one; further arguments go to `write_trial`, `stop` and `fail` name launches."""

    def make(name, trials=None, *, stop=(), fail=(), plan=None, **more):
        trials = trials or specs(**SHORT, off=False)
        write_plan(tmp_path / name, plan_of(trials, name=name, **(plan or {})))
        write_timeline(tmp_path / name, TIMELINE)
        for spec in trials:
            how = {"stop_after": 1} if spec.launch in stop else {"fail": "pack"} if spec.launch in fail else {}
            write_trial(tmp_path / name, spec, **how, **more)
        return analysis.load(tmp_path / name)

    return make


def text_of(found, width=100):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_comparison(found, console)
    return console.export_text()


def means(experiment):
    return experiment.scores.groupby("config", sort=False)["sharpe"].mean().to_numpy()


def test_one_changed_setting_gives_pairs_and_a_paired_interval(experiment):
    one = experiment("one")
    two = experiment("two", with_trainer(specs(**SHORT, off=False), n_step=4), change=drifted(0.002))
    effect = compare([one, two]).effects[0]
    assert effect.paired
    assert effect.changed == ("trainer.n_step",)
    assert (effect.unit, effect.n, effect.pairs) == ("configuration", (3, 3), 6)
    oracle = ttest_rel(means(two), means(one))
    interval = oracle.confidence_interval(0.95)
    assert effect.difference.value == pytest.approx((means(two) - means(one)).mean())
    assert (effect.difference.low, effect.difference.high) == pytest.approx((interval.low, interval.high))
    assert effect.difference.p == pytest.approx(oracle.pvalue)
    assert effect.wins.value == 1.0
    assert (effect.same_parameters, effect.of_parameters) == (6, 6)
    assert "paired; configurations differ only in trainer.n_step" in text_of(compare([one, two]))


def test_other_searched_values_give_no_pairs_and_welchs_interval(experiment):
    one = experiment("one")
    rates = [0.5, 0.6, 0.7]
    others = [with_trainer([s], learning_rate=r)[0] for s, r in zip(specs(**SHORT, off=False), rates, strict=True)]
    two = experiment("two", others, change=drifted(0.001))
    effect = compare([one, two]).effects[0]
    assert (effect.comparable, effect.paired) == (True, False)
    assert effect.why == "their configurations differ in trainer.learning_rate"
    interval = ttest_ind(means(two), means(one), equal_var=False).confidence_interval(0.95)
    assert (effect.difference.low, effect.difference.high) == pytest.approx((interval.low, interval.high))
    assert "unpaired; their configurations differ in trainer.learning_rate" in text_of(compare([one, two]))


def test_both_sides_are_cut_to_equal_n_in_launch_order(experiment):
    one = experiment("one", specs(**{**SHORT, "configs": 4, "seeds": 3}, off=False))
    two = experiment("two", specs(**SHORT, off=False))
    found = compare([one, two])
    assert [(side.configurations, side.seeds, side.n) for side in found.sides] == [(3, 2, 3), (3, 2, 3)]
    assert found.equal_n.startswith("3 configurations of 4 and 3, 2 seeds each")
    own = one.scores[one.scores["config"].isin(two.scores["config"]) & (one.scores["seed"] < 2)]
    assert found.sides[0].mean == pytest.approx(own.groupby("config")["sharpe"].mean().mean())
    assert [gem.size.n for gem in found.sides[0].gems] == [3, 3, 3]
    assert {gem.looked for gem in found.sides[0].gems} == {4}  # the verdict is that of all its evidence


def test_evidence_stops_at_the_first_configuration_that_still_runs(experiment):
    one, two = experiment("one"), experiment("two", stop=[1])
    found = compare([one, two])
    assert [side.configurations for side in found.sides] == [1, 1]
    assert "B: 2 not finished" in found.equal_n
    assert found.sides[0].unit == "seed"
    assert found.effects[0].unit == "seed"
    assert "of that configuration alone" not in text_of(found)  # equal scores: nothing is shown at all


def test_a_lost_trial_is_told_and_left_out_on_both_sides(experiment):
    found = compare([experiment("one"), experiment("two", fail=[0])])
    assert [side.configurations for side in found.sides] == [2, 2]
    assert "B: 1 without a score" in found.equal_n


def test_equal_runs_are_said_to_be_equal(experiment):
    one = experiment("one")
    found = compare([one, one])
    assert found.effects[0].identical == found.effects[0].pairs == 6
    text = text_of(found)
    assert "B - A: no difference; 6 pairs with equal scores" in text
    assert "parameters equal bit for bit in 6 of 6 members" in text
    assert "settings: no difference" in text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"sha256": "f" * 64}, "data: sha256 000000000000 and ffffffffffff"),
        ({"periods_per_year": 1764.0}, "bar frequency: 252 and 1764 bars a year"),
        ({"sha256": ""}, "its data are not known"),
    ],
)
def test_other_bars_are_not_compared_and_that_is_said_before_any_number(experiment, data, said):
    one, two = experiment("one"), experiment("two")
    two = replace(two, plan={**two.plan, "data": {**two.plan["data"], **data}})
    found = compare([one, two])
    assert (found.comparable, found.effects[0].difference) == (False, None)
    assert said in found.effects[0].why
    text = text_of(found)
    assert text.index("NOT COMPARABLE") < text.index("judge Sharpe")
    assert "B - A" not in text


def test_a_changed_yardstick_is_a_caution(experiment):
    trials = specs(**SHORT, off=False)
    costs = trials[0].trainer.market.model_copy(update={"commission_bps": 9.0})
    found = compare([experiment("one"), experiment("two", with_trainer(trials, market=costs))])
    assert found.effects[0].cautions == ("the yardstick changed too: trainer.market.commission_bps",)
    assert "the yardstick changed too" in text_of(found)


def test_failures_stand_at_the_floor_and_are_counted(experiment):
    found = compare([experiment("one"), experiment("two", frozen=[(0, 0)])])
    assert [side.floored for side in found.sides] == [0, 3]
    assert found.sides[1].variance[0].lo == FLOOR


def test_three_experiments_are_held_against_the_first(experiment):
    changed = with_trainer(specs(**SHORT, off=False), n_step=4)
    found = compare([experiment("one"), experiment("two", changed), experiment("three", stop=[2])])
    assert [(e.second, e.first, e.paired) for e in found.effects] == [("B", "A", True), ("C", "A", True)]
    assert [side.configurations for side in found.sides] == [2, 2, 2]


def test_a_third_experiment_cuts_the_pairs_of_the_others_too(experiment):
    one, two, three = (
        experiment(n, specs(**{**SHORT, "configs": c}, off=False)) for n, c in zip("abc", (3, 3, 2), strict=True)
    )
    three = replace(three, plan={**three.plan, "data": {**three.plan["data"], "sha256": "f" * 64}})
    found = compare([one, two, three])
    assert [side.configurations for side in found.sides] == [2, 2, 2]
    assert (found.effects[0].n, found.effects[0].pairs) == ((2, 2), 4)
    assert found.effects[0].difference.value == pytest.approx(found.sides[1].mean - found.sides[0].mean)
    assert not found.effects[1].comparable


def test_seeds_of_one_configuration_claim_no_more_than_that(experiment):
    trials = specs(**{**SHORT, "configs": 1}, off=False)
    found = compare(
        [experiment("one", trials), experiment("two", with_trainer(trials, n_step=4), change=drifted(0.01))]
    )
    assert (found.effects[0].unit, found.effects[0].n) == ("seed", (2, 2))
    assert "it shows of that configuration alone" in text_of(found)


def test_fewer_than_two_are_refused(experiment):
    with pytest.raises(ValueError, match="two experiments or more"):
        compare([experiment("one")])


def test_nothing_scored_yet(experiment, tmp_path):
    write_plan(tmp_path / "planned", plan_of(specs(**SHORT, off=False), name="planned"))
    found = compare([analysis.load(tmp_path / "planned"), experiment("one")])
    assert [side.n for side in found.sides] == [0, 0]
    assert "no run is scored on both sides" in text_of(found)
    json.loads(json_text(found), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_text_fits_eighty_columns_and_markup_in_names_is_text(experiment):
    one = experiment("[red]one[/red]")
    two = experiment("two", with_trainer(specs(**SHORT, off=False), n_step=4), change=drifted(0.001))
    text = text_of(compare([one, two]), width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "A  [red]one[/red]" in text


def test_shares_add_up_and_count_a_gem_where_it_is_wired(experiment):
    probed = list(gradient_shares(experiment("probed")))
    assert {share.slice for share in probed} == {"trunk", "direction", "magnitude"}
    assert not any(share.component in ("pred", "c51", "cql") or "gem" in share.component for share in probed)
    assert sum(s.median for s in probed if s.slice == "trunk") == pytest.approx(1.0, abs=0.15)
    trials = specs(**SHORT, off=False)
    base = trials[0].arms[0]
    gems = {**base.gems, "g12_predictive": GemConfig(mode="wired")}
    wired = [spec.model_copy(update={"arms": (base.model_copy(update={"gems": gems}),)}) for spec in trials]
    found = list(gradient_shares(experiment("wired", wired)))
    assert [share.component for share in found if share.component == "pred"] == ["pred"]
    assert all(0.0 <= share.low <= share.median <= share.high <= 1.0 for share in found)
