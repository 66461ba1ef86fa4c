"""Every label and grade from hand-made frames, each with the number, the interval and the limit in its reason."""

from typing import get_args

import numpy as np
import pytest
from judge_frames import REAL, alternating, interval, no_pairs, pair_rows, signal_rows, two_decimals

from analysis import Gate, Purity, VerdictRules, judge
from analysis.verdict import Grade

LEARNED = Gate("learned", 9, 0.4, 0.2, 0.6, "Sharpe +0.40 [+0.20, +0.60] against random trading of equal turnover")
OPEN = Gate("open", 9, 0.1, -0.2, 0.4, "Sharpe +0.10 [-0.20, +0.40] against random trading of equal turnover")
IDLE = Gate("not learned", 9, -0.4, -0.6, -0.2, "Sharpe -0.40 [-0.60, -0.20] against random trading of equal turnover")
IMPURE = Purity("impure", 4, "parameters of base and off arm differ first at configuration c0, seed 0, fold 0, epoch 3")

GAIN = (0.50, 0.60, 0.55, 0.45, 0.50)
SMALL = (0.02, -0.02, 0.03, -0.03, 0.0)
CALM, RESTLESS = np.array([-0.1, -0.05, 0.0, 0.05, 0.1]), np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
SIZES = (0.20, 0.30, 0.25, 0.22, 0.31)
TINY = (1e-5, 2e-5, 1e-5, 3e-5, 2e-5)


def feature(configs=5, epochs=12, seed=0):
    return np.random.default_rng(seed).standard_normal((configs, epochs))


def moving_with(signal, noise):
    """Sizes that follow `signal`, and as much of their own."""
    return REAL * np.exp(0.05 * (signal + noise * feature(*signal.shape, seed=9)))


def calmer(configs=40, swing=0.45):
    """Control and difference: the wired runs of a configuration lie eight times closer together."""
    unit = alternating(configs, 0.0, swing)[:, None]
    return np.tile(RESTLESS, (configs, 1)), unit + CALM - RESTLESS


def steadier(**rules):
    control, difference = calmer()
    return judge(pair_rows(difference, control=control), signal_rows([REAL] * 40), rules=VerdictRules(**rules))


def wired(differences, sizes=SIZES, rules=None, **more):
    return judge(pair_rows(differences, **more), signal_rows(sizes), rules=rules)


def unwired(sizes, rules=None, **more):
    return judge(no_pairs(), signal_rows(sizes, **more), rules=rules)


CASES = {
    "improves": lambda: wired(GAIN),
    "steadies": steadier,
    "harmless": lambda: wired(SMALL, rules=VerdictRules(policy="noninferior")),
    "zero": lambda: unwired(TINY),
    "redundant": lambda: unwired(TINY, columns={"off/spectral_norm": SIZES}),
    "hurts": lambda: wired(np.negative(GAIN)),
    "no benefit": lambda: wired(SMALL),
    "too few": lambda: unwired(SIZES[:4]),
    "undecided": lambda: wired((1.0, -1.0, 0.8, -0.9, 0.2)),
    "candidate": lambda: unwired(SIZES),
    "maybe redundant": lambda: unwired(moving_with(feature(), 0.40), columns={"noisy_nets": feature()}),
    "fragile": lambda: wired(GAIN, folds={0: np.add(GAIN, 1.0), 1: np.subtract(GAIN, 1.0)}),
    "not shown to have learned": lambda: judge(pair_rows(GAIN), signal_rows(SIZES), gate=OPEN),
    "not measured": lambda: unwired([np.nan] * 5),
    "impure": lambda: judge(pair_rows(GAIN), signal_rows(SIZES), purity=IMPURE),
    "not learned": lambda: judge(pair_rows(GAIN), signal_rows(SIZES), gate=IDLE),
}
LABELS = {
    "WIRE": ("improves", "steadies", "harmless"),
    "DELETE": ("zero", "redundant", "hurts", "no benefit"),
    "INVALID": ("impure", "not learned"),
}


def test_no_grade_is_left_out():
    assert set(CASES) == set(get_args(Grade))


@pytest.mark.parametrize("grade", CASES)
def test_every_grade_is_reached_and_has_its_label(grade):
    verdict = CASES[grade]()
    label = next((name for name, grades in LABELS.items() if grade in grades), "MORE TRIALS")
    assert (verdict.label, verdict.grade) == (label, grade)
    assert verdict.title.startswith(label)
    assert verdict.reason


@pytest.mark.parametrize(
    ("grade", "differences"), [("improves", GAIN), ("hurts", np.negative(GAIN)), ("no benefit", SMALL)]
)
def test_a_verdict_on_the_effect_tells_mean_and_repeated_interval(grade, differences):
    verdict, bounds = CASES[grade](), interval(differences)
    assert (verdict.stage, verdict.n) == (2, 5)
    assert verdict.estimate == pytest.approx(np.mean(differences))
    assert verdict.interval == pytest.approx(bounds)
    assert f"Sharpe {np.mean(differences):+.2f} {two_decimals(*bounds)}" in verdict.reason


def test_limits_stand_in_the_reasons():
    assert "below the +0.30 that would be" in CASES["no benefit"]().reason
    assert "no loss beyond 0.2" in CASES["harmless"]().reason
    assert "limit 1\u00a0%" in CASES["zero"]().reason
    assert "limit 0.81" in CASES["maybe redundant"]().reason
    reason = CASES["steadies"]().reason
    assert "no loss beyond 0.2" in reason
    assert "failures rise by less than 5.00\u00a0%" in reason


def test_steadies_tells_the_bound_of_the_spread_and_its_own_look():
    verdict = CASES["steadies"]()
    look = verdict.effect_looks[-1]
    assert (verdict.n, look.n) == (40, 40)
    assert look.steadiness < 0.0
    assert f"(bound {look.steadiness:+.2f})" in verdict.reason
    assert verdict.interval == pytest.approx(interval(alternating(40, 0.0, 0.45)))


def test_size_and_its_interval_stand_in_the_reasons_of_the_signal():
    logs = np.log10(SIZES)
    low, high = (10.0**bound for bound in interval(logs))
    verdict = CASES["candidate"]()
    assert verdict.estimate == pytest.approx(10.0 ** logs.mean())
    assert verdict.interval == pytest.approx((low, high))
    for number in (verdict.estimate, low, high):
        assert f"{100.0 * number:.1f}\u00a0%" in verdict.reason
    assert "wiring it is not tested yet" in verdict.reason


def test_a_feature_that_does_it_already_is_named_with_the_size_without_it():
    reason = CASES["redundant"]().reason
    assert reason.startswith("spectral_norm does it already")
    assert f"{100.0 * 10.0 ** np.log10(SIZES).mean():.1f}\u00a0%" in reason


def test_a_copy_of_a_feature_is_named_with_its_r2():
    signal = feature(epochs=30)
    verdict = unwired(moving_with(signal, 0.1), columns={"noisy_nets": signal})
    assert verdict.title == "DELETE (redundant)"
    found = verdict.redundancy[0]
    assert f"repeats noisy_nets: {100 * found.value:.0f}\u00a0% of it is explained" in verdict.reason
    assert "limit 0.81" in verdict.reason


def test_what_waits_says_how_many_would_do_and_what_loss_is_still_possible():
    verdict = CASES["undecided"]()
    assert f"still allows a loss of {-verdict.interval[0]:.2f}" in verdict.reason
    assert verdict.needed is None or f"about {verdict.needed} configurations would do" in verdict.reason
    near = wired(alternating(8, 0.3, 0.4), sizes=[REAL] * 8)
    assert near.grade == "undecided"
    assert near.needed in (12, 18, 27, 40)
    assert f"about {near.needed} configurations would do" in near.reason
    assert CASES["too few"]().reason == "4 of the 5 configurations that the first look needs"


def test_a_gem_that_fails_the_gate_or_the_purity_check_says_what_it_would_have_been():
    for grade, gate in (("not learned", IDLE), ("not shown to have learned", OPEN)):
        reason = CASES[grade]().reason
        assert gate.reason in reason
        assert "without this the verdict would be WIRE (improves)" in reason
    assert IMPURE.reason in CASES["impure"]().reason
    assert CASES["impure"]().needed is None


def test_a_pure_instrument_and_an_agent_that_has_learned_change_nothing():
    plain = repr(CASES["improves"]())
    assert repr(judge(pair_rows(GAIN), signal_rows(SIZES), gate=LEARNED, purity=Purity("pure", 9, "equal"))) == plain
    unrecorded = Purity("not recorded", 0, "no off arm")
    assert repr(judge(pair_rows(GAIN), signal_rows(SIZES), purity=unrecorded)) == plain


def test_a_gate_that_could_not_be_asked_is_a_note():
    gate = Gate("not tested", 0, np.nan, np.nan, np.nan, "the bars cannot be read again")
    assert "the bars cannot be read again" in " ".join(judge(pair_rows(GAIN), signal_rows(SIZES), gate=gate).notes)


@pytest.mark.parametrize(
    ("policy", "title"),
    [
        ("benefit", "DELETE (no benefit)"),
        ("noninferior", "WIRE (harmless)"),
        ("seed", "MORE TRIALS (candidate: run the wired arm)"),
    ],
)
def test_what_does_neither_good_nor_harm_is_told_by_the_policy(policy, title):
    assert wired(SMALL, rules=VerdictRules(policy=policy)).title == title


def test_the_seed_policy_asks_the_signal_alone():
    rules = VerdictRules(policy="seed")
    assert wired(np.negative(GAIN), rules=rules).grade == "candidate"
    assert wired(GAIN, sizes=TINY, rules=rules).title == "DELETE (zero)"
    assert wired(GAIN, rules=rules).effect_looks == ()


def test_one_configuration_can_be_judged_by_its_seeds_and_the_claim_says_so():
    signals = signal_rows([REAL], seeds=5)
    verdict = judge(pair_rows([GAIN]), signals, rules=VerdictRules(unit="seed"))
    assert verdict.title == "WIRE (improves)"
    assert (verdict.n, verdict.interval) == (5, pytest.approx(interval(GAIN)))
    assert "holds for this configuration only" in verdict.reason


def test_seeds_of_several_configurations_are_refused_as_units():
    with pytest.raises(ValueError, match="for one configuration, and there are 5"):
        judge(pair_rows(GAIN), signal_rows(SIZES), rules=VerdictRules(unit="seed"))


def test_the_units_win_rate_and_dose_are_told():
    verdict = wired(np.array([[0.6, 0.4], [0.5, 0.7], [0.6, -0.1], [0.5, 0.5], [0.4, 0.6]]), dose=0.1)
    assert [effect.pairs for effect in verdict.effects] == [2] * 5
    assert verdict.effects[2].difference == pytest.approx(0.25)
    assert verdict.win_rate == pytest.approx(0.9)
    assert verdict.dose == 0.1
