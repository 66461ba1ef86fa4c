"""Folds: disjoint where they must be, in order, clear of the hold-out, or refused."""

import itertools

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainer.config import FoldConfig
from trainer.data import DataError, holdout, make_folds

STAMPS = pd.date_range("2000-01-01", periods=4000, freq="h", tz="UTC")


def timeline(bars):
    return STAMPS[:bars]


def bounds(folds):
    return [{name: (span.start, span.stop) for name, span in fold.spans.items()} for fold in folds]


def test_literal_cut():
    stamps = timeline(1000)
    folds = make_folds(stamps, FoldConfig(embargo=5), purge=3)
    assert bounds(folds) == [
        {"train": (0, 310), "validation": (318, 418), "judge": (426, 576)},
        {"train": (0, 576), "validation": (584, 684), "judge": (692, 842)},
    ]
    assert [fold.index for fold in folds] == [0, 1]
    last = holdout(stamps, FoldConfig())
    assert (last.start, last.stop, len(last)) == (850, 1000, 150)
    judge = folds[0].spans["judge"]
    assert (judge.start_time, judge.stop_time) == (stamps[426], stamps[575])


def test_rolling_train_has_a_fixed_length():
    rolling = bounds(make_folds(timeline(1000), FoldConfig(mode="rolling", train=0.3), purge=3))
    assert [cut["train"] for cut in rolling] == [(10, 310), (276, 576)]


def test_without_holdout_the_last_judge_ends_with_the_data():
    config = FoldConfig(holdout=0.0)
    assert len(holdout(timeline(1000), config)) == 0
    assert make_folds(timeline(1000), config, purge=3)[-1].spans["judge"].stop == 1000


shares = st.floats(0.03, 0.2)


@given(
    bars=st.integers(600, 4000),
    count=st.integers(1, 4),
    mode=st.sampled_from(["anchored", "rolling"]),
    holdout_share=st.one_of(st.just(0.0), shares),
    judge=shares,
    validation=shares,
    train=shares,
    embargo=st.integers(0, 20),
    purge=st.integers(0, 30),
)
@settings(max_examples=60, deadline=None)
def test_spans_keep_their_distance(bars, count, mode, holdout_share, judge, validation, train, embargo, purge):
    config = FoldConfig(
        count=count, mode=mode, holdout=holdout_share, judge=judge, validation=validation, train=train, embargo=embargo
    )
    stamps = timeline(bars)
    try:
        folds = make_folds(stamps, config, purge=purge)
    except DataError:
        assume(False)
    gap, last = purge + embargo, holdout(stamps, config)
    assert len(folds) == count
    for fold in folds:
        first, middle, judged = (fold.spans[name] for name in ("train", "validation", "judge"))
        assert 0 <= first.start < first.stop
        assert middle.start - first.stop == gap
        assert judged.start - middle.stop == gap
        assert (len(middle), len(judged)) == (round(validation * bars), round(judge * bars))
        assert first.start == 0 if mode == "anchored" else len(first) == round(train * bars)
    assert folds[-1].spans["judge"].stop == (last.start - gap if holdout_share else bars)
    for before, after in itertools.pairwise(folds):
        assert after.spans["validation"].start - before.spans["judge"].stop == gap  # picked on bars that judge nothing


@given(bars=st.integers(0, 400), count=st.integers(1, 20), purge=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_too_little_data_is_refused_never_cut_short(bars, count, purge):
    try:
        folds = make_folds(timeline(bars), FoldConfig(count=count), purge=purge)
    except DataError:
        return
    assert min(len(span) for fold in folds for span in fold.spans.values()) >= 21


def test_refusal_names_the_numbers_and_the_keys():
    with pytest.raises(DataError, match=r"train span of fold 0 .* of 1000.*judge=0.3.*count=3.*lower count"):
        make_folds(timeline(1000), FoldConfig(count=3, judge=0.3), purge=3)
    with pytest.raises(DataError, match=r"train=0.6"):
        make_folds(timeline(1000), FoldConfig(mode="rolling", train=0.6), purge=3)


def test_empty_timeline_is_refused():
    with pytest.raises(DataError, match="empty"):
        make_folds(timeline(0), FoldConfig(), purge=3)


def test_timeline_must_increase_and_purge_must_not_be_negative():
    with pytest.raises(DataError, match="strictly increasing"):
        make_folds(timeline(1000)[::-1], FoldConfig(), purge=3)
    with pytest.raises(DataError, match="purge=-1"):
        make_folds(timeline(1000), FoldConfig(), purge=-1)
