"""Frames that cannot be judged: the column, configuration or gem is named, and what to do instead."""

import numpy as np
import pandas as pd
import pytest
from judge_frames import REAL, no_pairs, pair_rows, signal_rows
from test_judge_labels import GAIN, SIZES

from analysis import VerdictRules, judge
from analysis.evidence import PAIR_COLUMNS, SIGNAL_COLUMNS


def refusal(pairs=None, signals=None, rules=None):
    with pytest.raises(ValueError, match="judge: ") as caught:
        judge(
            pair_rows(GAIN) if pairs is None else pairs, signal_rows(SIZES) if signals is None else signals, rules=rules
        )
    return str(caught.value)


@pytest.mark.parametrize("column", PAIR_COLUMNS)
def test_a_column_that_pairs_lack_is_named_with_those_it_needs(column):
    message = refusal(pairs=pair_rows(GAIN).drop(columns=column))
    assert f"pairs lacks the column '{column}'" in message
    assert all(name in message for name in PAIR_COLUMNS)


@pytest.mark.parametrize("column", SIGNAL_COLUMNS)
def test_a_column_that_signals_lack_is_named_with_those_it_needs(column):
    message = refusal(signals=signal_rows(SIZES).drop(columns=column))
    assert f"signals lacks the column '{column}'" in message
    assert all(name in message for name in SIGNAL_COLUMNS)


def test_two_gems_in_a_frame_are_named():
    both = pd.concat([signal_rows(SIZES), signal_rows(SIZES, gem="h")])
    assert "signals holds the gems ['g', 'h']" in refusal(signals=both)
    assert "pairs holds the gems ['g', 'h']" in refusal(pairs=pd.concat([pair_rows(GAIN), pair_rows(GAIN, gem="h")]))


def test_frames_of_different_gems_are_named():
    assert "pairs is about 'h' and signals about 'g'" in refusal(pairs=pair_rows(GAIN, gem="h"))


def test_two_doses_are_named_and_the_way_out():
    both = pd.concat([pair_rows(GAIN, dose=0.3), pair_rows(GAIN, dose=0.1)])
    message = refusal(pairs=both)
    assert "pairs holds the doses [0.1, 0.3]" in message
    assert "judge each by itself" in message


@pytest.mark.parametrize("column", ["control", "treatment"])
def test_a_score_that_is_missing_without_a_cause_is_named_with_the_way_out(column):
    pairs = pair_rows(GAIN)
    pairs.loc[3, column] = np.nan
    message = refusal(pairs=pairs)
    assert f"{column} of configuration c3, seed 0 is missing" in message
    assert "`cause`" in message
    assert "floor" in message


def test_a_missing_score_with_a_cause_or_of_a_running_trial_is_none_to_complain_about():
    pairs = pair_rows([*GAIN, 0.5])
    pairs.loc[3, "treatment"] = np.nan
    pairs["cause"] = pairs["cause"].where(pairs["launch"] != 3, "disk full")
    assert judge(pairs, signal_rows([REAL] * 6)).absent == ("c3 seed 0: disk full",)
    running = pair_rows([*GAIN, 0.5]).assign(final=[True] * 5 + [False])
    running.loc[5, "treatment"] = np.nan
    assert judge(running, signal_rows([REAL] * 6)).n == 5


@pytest.mark.parametrize("column", ["control", "treatment"])
@pytest.mark.parametrize("number", [np.inf, -np.inf])
def test_an_infinite_score_is_named(column, number):
    pairs = pair_rows(GAIN)
    pairs.loc[2, column] = number
    message = refusal(pairs=pairs)
    assert column in message
    assert "configuration c2, seed 0" in message


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_an_infinite_size_in_a_healthy_member_is_told_with_its_configuration(number):
    signals = signal_rows(SIZES, seeds=2)
    signals.loc[(signals["launch"] == 1) & (signals["seed"] == 1), "size"] = number
    verdict = judge(no_pairs(), signals)
    assert verdict.absent == ("c1: its size is not finite in 1 of 2 healthy members",)
    assert verdict.n == 5
    assert verdict.estimate == pytest.approx(10.0 ** np.log10(SIZES).mean())


def test_a_negative_size_is_refused():
    """A norm is none; as the floor of a logarithm it would pass for zero."""
    signals = signal_rows(SIZES)
    signals.loc[signals["launch"] == 1, "size"] = -0.3
    message = refusal(signals=signals)
    assert "size" in message
    assert "c1" in message


@pytest.mark.parametrize(("frame", "column"), [("pairs", "treatment"), ("pairs", "control"), ("signals", "size")])
def test_words_where_numbers_belong_are_named(frame, column):
    rows = pair_rows(GAIN) if frame == "pairs" else signal_rows(SIZES)
    message = refusal(**{frame: rows.assign(**{column: "a lot"})})
    assert f"{frame}: column '{column}' must hold numbers" in message


def test_signals_without_rows_are_refused_and_pairs_without_rows_are_not():
    assert "signals has no rows" in refusal(signals=signal_rows(SIZES).iloc[:0])
    assert judge(no_pairs(), signal_rows(SIZES)).grade == "candidate"


def test_the_same_pair_twice_is_refused():
    """Two loads of one experiment put together would count every pair twice."""
    message = refusal(pairs=pd.concat([pair_rows(GAIN), pair_rows(GAIN).head(1)]))
    assert "configuration c0, seed 0" in message


def test_seeds_of_several_configurations_are_refused_with_the_reason():
    message = refusal(rules=VerdictRules(unit="seed"))
    assert "unit = 'seed' is for one configuration, and there are 5" in message


def test_a_schedule_that_does_not_grow_is_refused():
    with pytest.raises(ValueError, match="increasing"):
        judge(no_pairs(), signal_rows(SIZES), rules=VerdictRules(schedule=(8, 5)))
