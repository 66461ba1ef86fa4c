"""The looks in order on arrays; and arrays give what frames give."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_frames import REAL, SCHEDULE, alternating, effect_units, pair_rows, signal_rows, signal_units

from analysis import VerdictRules, evidence, judge
from analysis.redundancy import Panel
from analysis.replay import replay_looks
from analysis.units import NO_EFFECT, SignalUnits

RULES = VerdictRules()
NOISE = np.random.default_rng(5).standard_normal((135, 12))


def signal(*log10_sizes):
    return SignalUnits(np.concatenate([np.full(count, size) for count, size in log10_sizes]))


def studies(seed, count):
    """Pairs and signals near their limits, with features, failures, lost pairs, folds and a running end."""
    rng = np.random.default_rng(seed)
    difference = rng.normal(rng.choice([-0.3, 0.0, 0.4]), rng.choice([0.2, 0.6]), (count, 4))
    pairs = pair_rows(
        difference, control=rng.normal(0.5, 0.4, (count, 4)), failed_treatment=rng.random((count, 4)) < 0.05,
        folds={0: difference + 0.1, 1: difference - 0.1}, final=rng.random(4 * count) < 0.99,
    )  # fmt: skip
    lost = rng.random(4 * count) < 0.05
    pairs.loc[lost, "treatment"], pairs.loc[lost, "cause"] = np.nan, "pack"
    feature = rng.standard_normal((count, 8))
    own = rng.choice([0.05, 0.3, 1.0]) * rng.standard_normal((count, 8))
    sizes = 10.0 ** (rng.choice([-2.3, -1.7, -0.8]) + 0.2 * (feature + own))
    columns = {"noisy_nets": feature, "off/spectral_norm": np.full(count, REAL)}
    return pairs, signal_rows(sizes, seeds=2, columns=columns)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["benefit", "noninferior", "seed"]), st.integers(1, 6))
def test_arrays_give_the_verdict_of_the_frames(seed, policy, claims):
    pairs, signals = studies(seed, 18)
    rules = VerdictRules(policy=policy)
    of_signals, *_ = evidence.signal_units(evidence.complete_signals(signals), rules)
    of_pairs, *_ = evidence.effect_units(evidence.complete_pairs(pairs), rules)
    found = replay_looks(of_signals, of_pairs, rules, claims)
    verdict = judge(pairs, signals, rules=rules, n_gems=claims)
    assert (verdict.label, verdict.grade, verdict.stage) == (found.label, found.grade, found.stage)
    assert verdict.looks == tuple(each.look for each in found.signals)
    assert repr(verdict.effect_looks) == repr(found.effects)
    assert verdict.n == found.n or found.grade == "too few"


def test_nothing_to_look_at_is_too_few():
    found = replay_looks(signal_units(4), NO_EFFECT, RULES, 1)
    assert (found.label, found.grade, found.n, found.signals, found.effects) == ("MORE TRIALS", "too few", 0, (), ())


def test_the_effect_is_not_looked_at_before_the_signal_is_shown():
    """Open for 8 configurations, then there: what the pairs showed at 5 and 8 alone counts for nothing."""
    late = SignalUnits(np.concatenate([alternating(8, -2.0, 0.8), np.full(19, -0.5)]))
    gains = effect_units(np.concatenate([np.full(5, 0.5) + 0.01 * NOISE[:5, 0], alternating(22, 0.0, 2.0)]))
    found = replay_looks(late, gains, RULES, 1)
    shown = next(each.look.n for each in found.signals if each.look.finding == "candidate")
    assert shown > 8
    assert [look.n for look in found.effects] == [n for n in (12, 18, 27) if n >= shown]
    assert found.label == "MORE TRIALS"


def test_a_signal_that_is_deleted_hides_the_effect():
    found = replay_looks(signal((12, -4.0)), effect_units(np.full(12, 0.5)), RULES, 1)
    assert (found.label, found.grade, found.n, found.effects) == ("DELETE", "zero", 5, ())


def test_the_first_look_that_hurts_ends_the_replay():
    values = np.concatenate([-0.5 + 0.02 * NOISE[:5, 0], np.full(7, 5.0)])
    found = replay_looks(signal_units(12), effect_units(values), RULES, 1)
    assert (found.label, found.grade, found.n) == ("DELETE", "hurts", 5)
    assert len(found.effects) == 1


def test_a_first_claim_of_gain_outlives_later_harm():
    values = np.concatenate([0.5 + 0.02 * NOISE[:5, 0], np.full(35, -5.0)])
    found = replay_looks(signal_units(40), effect_units(values), RULES, 1)
    assert (found.label, found.grade, found.n) == ("WIRE", "improves", 5)
    assert found.effects[-1].finding == "hurts"


def panel(gem, feature):
    """One member a unit."""
    return Panel(gem, feature, np.arange(len(gem)))


def test_new_is_lost_only_to_a_shown_copy():
    """An R^2 estimate beyond the limit holds a gem back until it falls; a bound beyond the limit deletes."""
    feature, own = NOISE[:12], np.random.default_rng(6).standard_normal((12, 12))
    copy, doubtful, apart = feature + 0.05 * own, feature + 0.34 * own, own
    for gem, grade in ((copy, "redundant"), (doubtful, "maybe redundant"), (apart, "candidate")):
        units = SignalUnits(np.full(12, -0.7), {"noisy_nets": panel(gem, feature)})
        assert replay_looks(units, NO_EFFECT, RULES, 1).grade == grade


def test_the_feature_that_explains_most_is_named():
    feature, own = NOISE[:12], np.random.default_rng(6).standard_normal((12, 12))
    panels = {
        "weak": panel(feature + 0.1 * own, feature + 0.3 * own),
        "strong": panel(feature + 0.1 * own, feature),
    }
    found = replay_looks(SignalUnits(np.full(12, -0.7), panels), NO_EFFECT, RULES, 1)
    assert (found.grade, found.duplicate) == ("redundant", "strong")


def test_units_beyond_the_last_look_change_nothing():
    values = alternating(150, 0.0, 3.0)
    found = replay_looks(signal_units(150), effect_units(values), RULES, 1)
    cut = replay_looks(signal_units(135), effect_units(values[:135]), RULES, 1)
    assert repr(found) == repr(cut)
    assert [look.n for look in found.effects] == list(SCHEDULE)


def test_more_claims_never_decide_earlier():
    rng = np.random.default_rng(2)
    for _ in range(20):
        effect = effect_units(rng.normal(0.3, 0.4, 40))
        one, six = (replay_looks(signal_units(40), effect, RULES, claims) for claims in (1, 6))
        assert six.label == "MORE TRIALS" or six.n >= one.n


def test_a_stated_sample_is_what_the_looks_see():
    effect = effect_units(alternating(12, 0.1, 0.5), pairs=3)
    with_more = replace(effect, difference=np.concatenate([effect.difference[:8], np.full(4, 9.0)]))
    first, second = (replay_looks(signal_units(12), units, RULES, 1).effects for units in (effect, with_more))
    assert repr(first[:2]) == repr(second[:2])
    assert repr(first[2]) != repr(second[2])
