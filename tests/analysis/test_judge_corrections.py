"""The ten corrections of the verdict procedure, each test named after what it prevents."""

import numpy as np
import pytest
from judge_frames import (
    REAL,
    alternating,
    effect_units,
    interval,
    no_pairs,
    pair_rows,
    signal_rows,
    signal_units,
)
from synthetic_experiment import GEMS, plan_of, specs, write_experiment, write_trial
from test_judge_labels import CALM, GAIN, LEARNED, OPEN, RESTLESS, SIZES, SMALL, TINY, calmer

import analysis
from analysis import VerdictRules, judge
from analysis.replay import replay_looks
from trainer.config import ArmConfig, GemConfig, Member
from trainer.record import write_plan
from trainer.sharpe import FLOOR

NONINFERIOR = VerdictRules(policy="noninferior")


# 1: the unit is the configuration


def test_1_many_seeds_of_few_configurations_do_not_count_as_many_units():
    gains = np.full((4, 50), 0.5) + 0.1 * np.random.default_rng(0).standard_normal((4, 50))
    verdict = judge(pair_rows(gains), signal_rows([REAL] * 4, seeds=50))
    assert (verdict.grade, verdict.n, verdict.looks, verdict.effect_looks) == ("too few", 4, (), ())


def test_1_an_effect_that_differs_between_configurations_is_as_uncertain_as_they_are_few():
    effects = np.array([1.2, -0.4, 0.9, -0.3, 0.6])
    gains = effects[:, None] + 0.01 * np.random.default_rng(0).standard_normal((5, 40))
    verdict = judge(pair_rows(gains), signal_rows([REAL] * 5))
    assert verdict.interval == pytest.approx(interval(gains.mean(axis=1)))
    assert verdict.grade == "undecided"  # two hundred independent pairs would have been certain


# 2: wired against probed, everything else equal


def two_gem_trial(base, arm):
    spec = specs(configs=1, seeds=2, folds=1, off=False, gems=dict.fromkeys(base, 0.2))[0]
    arms = (ArmConfig(name="base", gems=base), ArmConfig(name="other", gems=arm))
    members = tuple(Member(arm=a.name, seed=s, fold=0) for a in arms for s in range(2))
    return spec.model_copy(update={"arms": arms, "members": members})


@pytest.mark.parametrize(
    ("base", "arm", "count"),
    [
        (("probe", "probe"), ("wired", "probe"), 2),
        (("probe", "wired"), ("wired", "wired"), 2),  # whatever the base arm wires
        (("probe", "probe"), ("wired", "wired"), 0),  # two changes at once
        (("off", "probe"), ("wired", "probe"), 0),  # not probed in the base arm
    ],
)
def test_2_a_difference_of_more_than_the_wire_is_no_pair(tmp_path, base, arm, count):
    gems = ("g6_branch_indep", "g10_temporal")
    sides = [{gem: GemConfig(mode=mode) for gem, mode in zip(gems, modes, strict=True)} for modes in (base, arm)]
    trial = two_gem_trial(*sides)
    write_experiment(tmp_path, [trial], dict.fromkeys(gems, 0.2))
    pairs = analysis.load(tmp_path).pairs
    assert list(pairs["gem"]) == ["g6_branch_indep"] * count


# 3: a gem must be good for something


def test_3_harmless_alone_is_never_wired_unless_asked_for():
    pairs, signals = pair_rows(SMALL), signal_rows(SIZES)
    assert judge(pairs, signals).title == "DELETE (no benefit)"
    assert judge(pairs, signals, rules=NONINFERIOR).title == "WIRE (harmless)"


def test_3_a_small_gain_that_is_not_shown_to_be_small_is_not_deleted():
    verdict = judge(pair_rows(alternating(5, 0.25, 0.05)), signal_rows(SIZES))
    assert verdict.title == "WIRE (improves)"
    wide = judge(pair_rows(alternating(5, 0.05, 0.10)), signal_rows(SIZES))
    assert wide.interval[1] > 0.30
    assert wide.grade == "undecided"


# 4: steadies needs many configurations and no more failures


def test_4_few_configurations_never_steady():
    control, difference = calmer(27)
    verdict = judge(pair_rows(difference, control=control), signal_rows([REAL] * 27))
    assert verdict.effect_looks[-1].steadiness < 0.0
    assert verdict.grade == "undecided"


def test_4_a_calm_arm_whose_runs_fail_more_often_does_not_steady():
    units = effect_units(alternating(40, 0.0, 0.45), pairs=5, steadiness=alternating(40, -0.4, 0.01))
    assert replay_looks(signal_units(40), units, VerdictRules(), 1).grade == "steadies"
    failing = effect_units(
        alternating(40, 0.0, 0.45), pairs=5, steadiness=alternating(40, -0.4, 0.01), collapse=np.resize([0.2, 0], 40)
    )
    assert replay_looks(signal_units(40), failing, VerdictRules(), 1).grade != "steadies"


def test_4_so_few_pairs_that_failures_could_hide_do_not_steady():
    units = effect_units(alternating(40, 0.0, 0.45), pairs=1, steadiness=alternating(40, -0.4, 0.01))
    found = replay_looks(signal_units(40), units, VerdictRules(), 1)
    assert found.grade != "steadies"
    assert found.effects[-1].collapse > 0.05


def test_4_a_gem_that_calms_is_not_deleted_before_it_could_be_seen_to_calm():
    """Its Sharpe ratio does not change, so that "no benefit" is in sight long before the look at 40."""
    control = np.tile(RESTLESS, (40, 1))
    difference = alternating(40, 0.0, 0.1)[:, None] + CALM - RESTLESS
    verdict = judge(pair_rows(difference, control=control), signal_rows([REAL] * 40))
    assert verdict.title == "WIRE (steadies)"


# 5: who failed, and why


def test_5_a_lost_pack_is_absent_from_both_arms_and_listed_and_not_a_tie_of_the_worst():
    pairs = pair_rows([0.5, 0.6, 0.55, 0.45, 0.5, 0.6])
    pairs.loc[2, ["control", "treatment", "cause"]] = [np.nan, np.nan, "pack: out of memory"]
    verdict = judge(pairs, signal_rows([REAL] * 6))
    assert verdict.absent == ("c2 seed 0: pack: out of memory",)
    assert [effect.unit for effect in verdict.effects] == ["c0", "c1", "c3", "c4", "c5"]
    assert verdict.estimate == pytest.approx(np.mean([0.5, 0.6, 0.45, 0.5, 0.6]))


def test_5_a_run_that_failed_by_itself_counts_at_the_floor():
    pairs = pair_rows(GAIN)
    pairs.loc[1, ["treatment", "failed_treatment"]] = [FLOOR, True]
    verdict = judge(pairs, signal_rows(SIZES))
    assert verdict.effects[1].difference == pytest.approx(FLOOR - 0.5)
    assert verdict.grade == "undecided"
    assert judge(pairs.drop(index=1), signal_rows(SIZES)).n == 5  # dropped, the rest alone would be too few


def freeze(arms):
    """Freeze every member of `arms` from epoch 2 on."""

    def change(table, epoch):
        hit = [arm in arms and epoch > 1 for arm in table["arm"]]
        table["status"] = np.where(hit, "frozen", table["status"]).tolist()
        return table

    return change


@pytest.mark.parametrize("frozen", [{"base", "wired-g6_branch_indep"}, {"base"}, {"wired-g6_branch_indep"}, set()])
def test_5_whatever_froze_before_a_machine_lost_the_pack_is_absent(tmp_path, frozen):
    """Else pairs that froze in both arms would stay as ties, and those that froze in one would not."""
    trials = specs(configs=1, seeds=2, folds=1, off=False, wired="g6_branch_indep")
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], stop_after=4, fail="pack", change=freeze(frozen))
    pairs = analysis.load(tmp_path).pairs
    assert pairs["final"].all()
    assert (pairs["cause"] != "").all()


def test_5_a_frozen_run_of_a_finished_pack_stands_at_the_floor(tmp_path):
    trials = specs(configs=1, seeds=2, folds=1, off=False, wired="g6_branch_indep")
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], change=freeze({"wired-g6_branch_indep"}))
    pairs = analysis.load(tmp_path).pairs
    assert (pairs["treatment"] == FLOOR).all()
    assert pairs["failed_treatment"].all()
    assert (pairs["cause"] == "").all()


# 6: size of the gradient, and whether a feature does it already


def test_6_a_large_loss_without_a_gradient_is_zero():
    verdict = judge(no_pairs(), signal_rows(TINY).assign(value=1e3))
    assert verdict.title == "DELETE (zero)"


def test_6_zero_with_the_feature_and_not_without_it_is_redundant_and_zero_in_both_was_never_active():
    for without, grade in ((SIZES, "redundant"), (TINY, "zero")):
        verdict = judge(no_pairs(), signal_rows(TINY, columns={"off/noisy_nets": without}))
        assert verdict.title == f"DELETE ({grade})"
        assert verdict.ablations[0].feature == "noisy_nets"


def test_6_a_feature_that_is_off_or_constant_is_not_taken_for_new_without_a_word():
    columns = {"noisy_nets": np.ones(5), "ensemble_kl": np.full(5, np.nan)}
    verdict = judge(no_pairs(), signal_rows(REAL * np.ones((5, 4)), columns=columns))
    assert {found.feature for found in verdict.redundancy if found.untested} == {"noisy_nets", "ensemble_kl"}


def test_6_features_that_nobody_recorded_are_named(tmp_path):
    write_experiment(tmp_path, specs(configs=1, seeds=2))
    found = next(v for v in analysis.verdicts(analysis.load(tmp_path)) if v.gem == "g6_branch_indep")
    untested = {result.feature: result.untested for result in found.redundancy}
    assert untested["noisy_nets"] == "the feature is not recorded"


# 7: grades are of the data at hand, verdicts stand


def test_7_a_grade_may_rise_and_the_label_stays():
    small_then_large = np.concatenate([SMALL, np.full(7, 0.5)])
    pairs, signals = pair_rows(small_then_large), signal_rows([REAL] * 12)
    first = judge(pairs[pairs["launch"] < 5], signals[signals["launch"] < 5], rules=NONINFERIOR)
    last = judge(pairs, signals, rules=NONINFERIOR)
    assert (first.title, last.title) == ("WIRE (harmless)", "WIRE (improves)")
    assert (first.n, last.n) == (5, 12)


def test_7_a_signal_that_is_only_there_is_never_wired():
    for sizes in (SIZES, [0.9] * 40):
        verdict = judge(no_pairs(), signal_rows(sizes))
        assert (verdict.label, verdict.grade) == ("MORE TRIALS", "candidate")


def test_7_a_wire_that_a_later_look_contradicts_says_so():
    values = [0.5, 0.6, 0.55, 0.45, 0.5] + [-1.0] * 35
    pairs, signals = pair_rows(values), signal_rows([REAL] * 40)
    before = judge(pairs[pairs["launch"] < 5], signals[signals["launch"] < 5])
    verdict = judge(pairs, signals)
    assert verdict.effect_looks[-1].finding == "hurts"
    assert verdict.label == before.label == "WIRE"
    assert len(verdict.notes) > len(before.notes)


# 8: nothing follows from an agent that has not learned


def test_8_an_agent_that_trades_no_better_than_at_random_gets_no_verdict():
    pairs, signals = pair_rows(GAIN), signal_rows(SIZES)
    assert judge(pairs, signals, gate=LEARNED).label == "WIRE"
    assert judge(pairs, signals, gate=OPEN).label == "MORE TRIALS"
    idle = analysis.Gate("not learned", 9, -0.4, -0.6, -0.2, "worse than at random")
    for rows in (pairs, pair_rows(np.negative(GAIN)), pair_rows(alternating(5, 0.0, 1.0)), no_pairs()):
        assert judge(rows, signals, gate=idle).title == "INVALID (not learned)"


# 9: a sign that hangs on one configuration or fold


def test_9_one_configuration_that_carries_the_mean_decides_nothing():
    verdict = judge(pair_rows([6.0, -0.1, 0.1, -0.1, -0.1]), signal_rows(SIZES))
    assert verdict.estimate > 1.0
    assert verdict.label == "MORE TRIALS"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_9_a_gain_or_loss_of_one_fold_alone_decides_nothing(sign):
    gains = sign * np.array(GAIN)
    folds = {0: gains + sign, 1: gains - sign}  # the one fold gives all of it, the other takes a part away
    verdict = judge(pair_rows(gains, folds=folds), signal_rows(SIZES))
    assert verdict.title == "MORE TRIALS (fragile)"
    assert "the sign hangs on fold 0" in verdict.reason
    agreeing = judge(pair_rows(gains, folds={0: gains, 1: 0.5 * gains}), signal_rows(SIZES))
    assert agreeing.label == ("WIRE" if sign > 0 else "DELETE")


def test_9_a_fold_that_one_configuration_lacks_is_still_looked_at():
    gains = np.array(GAIN)
    folds = {0: gains + 1.0, 1: gains - 1.0}
    folds[1][2] = np.nan
    assert judge(pair_rows(gains, folds=folds), signal_rows(SIZES)).grade == "fragile"


def test_9_a_fragile_claim_may_hold_later():
    gains = np.full(8, 0.5) + 0.01 * np.arange(8)
    folds = {0: gains + 1.0, 1: np.where(np.arange(8) < 5, gains - 1.0, gains + 5.0)}
    assert (
        judge(pair_rows(gains[:5], folds={k: v[:5] for k, v in folds.items()}), signal_rows(SIZES)).grade == "fragile"
    )
    later = judge(pair_rows(gains, folds=folds), signal_rows([REAL] * 8))
    assert (later.title, later.n) == ("WIRE (improves)", 8)


# 10: one path of prices


def test_10_no_effect_is_told_without_saying_that_the_interval_leaves_the_path_out():
    verdict = judge(pair_rows(GAIN), signal_rows(SIZES))
    assert "one path of prices" in " ".join(verdict.notes)
    assert "one path of prices" not in " ".join(judge(no_pairs(), signal_rows(SIZES)).notes)


def test_10_blocks_of_time_drawn_again_stand_beside_the_verdict(tmp_path):
    trials = specs(configs=5, seeds=2, folds=2, off=False, wired="g6_branch_indep")
    write_experiment(tmp_path, trials, GEMS)
    found = {verdict.gem: verdict for verdict in analysis.verdicts(analysis.load(tmp_path))}
    low, high = found["g6_branch_indep"].path_interval
    assert low < found["g6_branch_indep"].effect.estimate < high
    assert np.isnan(found["g12_predictive"].path_interval).all()
