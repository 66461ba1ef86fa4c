"""A verdict depends on what was planned and measured: not on the order of rows, of finishing, nor on how often one
asks. It looks where the schedule says, and what is decided stays so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_frames import REAL, SCHEDULE, alternating, effect_units, interval, no_pairs, pair_rows, signal_rows

from analysis import VerdictRules, judge
from analysis.replay import replay_looks
from analysis.units import SignalUnits

RULES = VerdictRules()
SEEDS = st.integers(0, 2**32 - 1)


def material(count=9, seed=3):
    """Pairs with three seeds and a lost one, and signals with a feature and a feature left out."""
    rng = np.random.default_rng(seed)
    pairs = pair_rows(rng.normal(0.1, 0.4, (count, 3)), control=rng.normal(0.5, 0.3, (count, 3)), dose=0.1)
    pairs.loc[4, ["treatment", "cause"]] = [np.nan, "out of memory"]
    sizes = 10.0 ** rng.normal(-1.3, 0.3, (count, 6))
    columns = {"noisy_nets": rng.normal(1.0, 0.1, (count, 6)), "off/spectral_norm": 2.0 * sizes}
    return pairs, signal_rows(sizes, seeds=2, columns=columns)


def told(verdict):
    """What a reader sees, without the last bits of sums."""
    return (verdict.title, verdict.n, verdict.needed, verdict.reason, verdict.absent, verdict.notes,
            [look.n for look in verdict.looks], [look.n for look in verdict.effect_looks],
            [effect.unit for effect in verdict.effects])  # fmt: skip


@settings(deadline=None, max_examples=15)
@given(SEEDS, SEEDS)
def test_rows_may_come_in_any_order(one, two):
    pairs, signals = material()
    shuffled = pairs.sample(frac=1.0, random_state=one), signals.sample(frac=1.0, random_state=two)
    found, expected = judge(*shuffled), judge(pairs, signals)
    assert told(found) == told(expected)
    assert (found.estimate, *found.interval) == pytest.approx((expected.estimate, *expected.interval), rel=1e-12)


@settings(deadline=None, max_examples=10)
@given(SEEDS)
def test_so_they_may_where_the_seeds_of_one_configuration_are_the_units(random_state):
    rng, rules = np.random.default_rng(1), VerdictRules(unit="seed")
    sizes = 10.0 ** rng.normal(-1.6, 0.5, 7)
    signals = pd.concat([signal_rows([size]).assign(seed=seed) for seed, size in enumerate(sizes)], ignore_index=True)
    expected = judge(no_pairs(), signals, rules=rules)
    assert expected.looks[0].estimate == pytest.approx(10.0 ** np.log10(sizes[:5]).mean())
    shuffled = signals.sample(frac=1.0, random_state=random_state)
    assert told(judge(no_pairs(), shuffled, rules=rules)) == told(expected)


def test_launch_order_decides_who_comes_first_and_not_the_names():
    pairs, signals = pair_rows([0.5, 0.6, 0.55, 0.45, 0.5, -2.0, -3.0]), signal_rows([REAL] * 7)
    assert judge(pairs, signals).estimate == pytest.approx(0.52)
    renamed = {f"c{n}": f"c{6 - n}" for n in range(7)}
    same = [frame.assign(config=frame["config"].map(renamed)) for frame in (pairs, signals)]
    assert judge(*same).estimate == pytest.approx(0.52)
    turned = [frame.assign(launch=6 - frame["launch"]) for frame in (pairs, signals)]
    assert judge(*turned).effect_looks[0].estimate == pytest.approx(np.mean([-3.0, -2.0, 0.5, 0.45, 0.55]))


def test_the_prefix_ends_at_the_first_pair_that_is_not_final():
    pairs, signals = pair_rows([0.5, 0.6, 0.55, 0.45, 0.5, 0.5, 0.6, 0.4]), signal_rows([REAL] * 8)
    running = pairs.assign(final=pairs["launch"] != 3)
    running.loc[3, ["treatment", "control"]] = np.nan
    verdict = judge(running, signals)
    assert (verdict.grade, verdict.effect_looks) == ("candidate", ())
    assert [effect.unit for effect in verdict.effects] == ["c0", "c1", "c2"]
    assert judge(pairs.assign(final=pairs["launch"] != 6), signals).effect_looks[-1].n == 5


def test_one_running_seed_holds_its_configuration_back():
    pairs = pair_rows(np.full((5, 3), 0.5) + 0.01 * np.arange(15).reshape(5, 3))
    pairs["final"] = ~((pairs["launch"] == 4) & (pairs["seed"] == 2))
    assert judge(pairs, signal_rows([REAL] * 5)).effect_looks == ()


@pytest.mark.parametrize("count", [5, 6, 7, 8, 11, 12, 13])
def test_it_looks_at_the_sizes_of_the_schedule_alone(count):
    values = alternating(count, 0.3, 0.6)
    verdict = judge(pair_rows(values), signal_rows([REAL] * count))
    looks = [n for n in SCHEDULE if n <= count]
    assert [look.n for look in verdict.effect_looks] == looks
    assert [look.n for look in verdict.looks] == looks
    assert verdict.interval == pytest.approx(interval(values[: looks[-1]]))
    upto = judge(pair_rows(values[: looks[-1]]), signal_rows([REAL] * looks[-1]))
    assert (verdict.reason, verdict.n) == (upto.reason, upto.n)


@pytest.mark.parametrize("later", ["zero", "redundant"])
def test_a_wire_is_not_taken_back_by_a_later_look_at_the_signal(later):
    gains = [0.5, 0.6, 0.55, 0.45, 0.5] + [0.5] * 13
    feature = np.random.default_rng(0).standard_normal((18, 12))
    sizes = REAL * np.exp(0.1 * np.random.default_rng(1).standard_normal((18, 12)))
    if later == "zero":
        sizes[5:] = 1e-9
    else:
        sizes[5:] = REAL * np.exp(0.3 * feature[5:])
    signals = signal_rows(sizes, columns={"noisy_nets": feature})
    before = judge(pair_rows(gains[:5]), signals[signals["launch"] < 5])
    verdict = judge(pair_rows(gains), signals)
    assert (before.title, before.n) == ("WIRE (improves)", 5)
    assert verdict.label == "WIRE"
    alone = judge(no_pairs(), signals.assign(launch=lambda rows: (rows["launch"] - 5) % 18))
    assert alone.title == f"DELETE ({later})"  # those rows by themselves are a reason to delete


def random_history(rng, count):
    """A signal near its limit and an effect near 0 or a margin: histories in which every claim happens."""
    center, sd = rng.choice([-2.5, -2.0, -1.5, -0.7]), rng.choice([0.1, 0.5])
    mean, spread = rng.choice([-0.4, 0.0, 0.1, 0.4]), rng.choice([0.2, 0.6])
    effect = effect_units(
        rng.normal(mean, spread, count), pairs=4, steadiness=rng.normal(-0.1, 0.1, count), collapse=0.0
    )
    return SignalUnits(rng.normal(center, sd, count)), effect


def upto(signal, effect, n):
    cut = {name: getattr(effect, name)[:n] for name in ("difference", "steadiness", "collapse", "pairs", "gains")}
    return SignalUnits(signal.log10_sizes[:n]), replace(effect, **cut)


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.sampled_from(["benefit", "noninferior", "seed"]))
def test_what_is_decided_stays_decided_however_many_rows_follow(seed, policy):
    signal, effect = random_history(np.random.default_rng(seed), 40)
    rules, decided = VerdictRules(policy=policy), None
    for n in (5, 8, 12, 18, 27, 40):
        found = replay_looks(*upto(signal, effect, n), rules, 1)
        if decided is not None:
            assert found.label == decided.label
            assert found.label == "WIRE" or (found.grade, found.n) == (decided.grade, decided.n)
        if found.label != "MORE TRIALS":
            decided = found


@settings(deadline=None, max_examples=20)
@given(SEEDS, st.integers(1, 12))
def test_alpha_is_divided_by_the_claims(seed, claims):
    values = np.random.default_rng(seed).normal(0.0, 0.5, 8)
    look = judge(pair_rows(values), signal_rows([REAL] * 8), n_gems=claims).effect_looks[0]
    assert (look.low, look.high) == pytest.approx(interval(values[:5], claims))
    size = judge(no_pairs(), signal_rows(10.0 ** (values[:5] - 2.0)), n_gems=claims).looks[0]
    bounds = np.array(interval(values[:5] - 2.0, claims))
    assert (size.low, size.high) == pytest.approx(tuple(10.0**bounds))


def test_a_claim_that_one_gem_may_make_six_gems_may_not():
    gains = [0.5, 0.2, 0.6, 0.3, 0.35]
    pairs, signals = pair_rows(gains), signal_rows([REAL] * 5)
    assert judge(pairs, signals, n_gems=1).title == "WIRE (improves)"
    assert judge(pairs, signals, n_gems=6).grade == "undecided"


def test_asking_again_changes_nothing_and_the_frames_stay_as_they_are():
    pairs, signals = material()
    copies = pairs.copy(), signals.copy()
    assert repr(judge(pairs, signals)) == repr(judge(pairs, signals))
    pd.testing.assert_frame_equal(pairs, copies[0])
    pd.testing.assert_frame_equal(signals, copies[1])
