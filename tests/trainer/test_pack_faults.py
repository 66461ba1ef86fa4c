"""A member that turns NaN is frozen and reported; its neighbours do not notice."""

import math

import numpy as np
import pytest
import torch
from tiny_trial import rows_differ, run, started, tiny_spec

from trainer import capture
from trainer.pack import state
from trainer.sharpe import FLOOR, iqm
from trainer.step import iterate

MEMBERS = ["base 0 0", "base 1 0", "wired 1 0", "base 2 1"]
BROKEN = 1


def break_parameter(pack):
    pack.online.params[BROKEN, 5] = math.nan


def break_rewards(pack):
    pack.replay.fields["reward"][BROKEN] = math.nan


def break_one_weight_to_infinity(pack):
    pack.online.weights["w_d2"][BROKEN, 0, 0] = math.inf


@pytest.fixture(scope="module")
def whole(market_file):
    return run(tiny_spec(market_file, MEMBERS))


@pytest.fixture(scope="module", params=[break_parameter, break_rewards, break_one_weight_to_infinity])
def broken(request, market_file):
    """A run in which the fault happens before the second update of epoch 2 (the sixth of the run)."""
    original, count = capture.iterate, []

    def iterate(pack, diagnose):
        count.append(1)
        if len(count) == 6:
            request.param(pack)
        original(pack, diagnose)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "iterate", iterate)
        return run(tiny_spec(market_file, MEMBERS))


def test_the_others_are_bit_identical(whole, broken):
    for a, b in zip(whole.records, broken.records, strict=True):
        for lane in (0, 2, 3):
            assert rows_differ(a, lane, b, lane) == []
    for name, tensor in whole.checkpoint.tensors.items():
        others = [0, 2, 3]
        assert torch.equal(tensor[others], broken.checkpoint.tensors[name][others]), name


def test_it_is_frozen_and_reported(broken):
    status = [record.columns["status"][BROKEN] for record in broken.records]
    assert status == ["ok", "ok", "frozen", "frozen"]
    assert [int(record.columns["frozen_at"][BROKEN]) for record in broken.records] == [-1, -1, 5, 5]
    assert broken.records[-1].columns["counter/adam_steps"][BROKEN] == 5
    assert broken.records[-1].columns["updates"][BROKEN] == 12
    assert broken.summary["frozen"] == ["base seed 1 fold 0"]
    assert "status=frozen" in broken.records[-1].lines[BROKEN]
    digests = [record.columns["purity/params_sha"][BROKEN] for record in broken.records]
    assert digests[2] == digests[3] != digests[1]


def test_its_sharpe_counts_as_the_floor(whole, broken):
    values = broken.records[-1].columns["eval/validation/sharpe"]
    assert np.isfinite(values).all()
    expected = iqm([values[0], FLOOR, values[3]])  # the base arm
    assert broken.records[-1].objective == pytest.approx(expected)
    assert broken.records[-1].objective < whole.records[-1].objective


def test_a_pack_of_broken_members_ends_at_the_floor(market_file):
    def iterate(pack, diagnose):
        pack.online.params.fill_(math.nan)
        original(pack, diagnose)

    original = capture.iterate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "iterate", iterate)
        seen = run(tiny_spec(market_file, ["base 0 0", "base 1 0"]))
    assert [record.objective for record in seen.records[1:]] == [FLOOR] * 3
    assert len(seen.summary["frozen"]) == 2


def test_nothing_of_a_frozen_member_moves(market_file):
    """Neither its parameters nor what is kept beside them: evaluated again, it is what it was when it broke."""
    pack = started(tiny_spec(market_file, ["base 0 0", "base 1 0"]))
    with torch.no_grad():
        iterate(pack, diagnose=False)
        pack.first_moment[1, 0] = math.nan
        pack.gradient[1].fill_(math.nan)
        pack.online.weights["w_d2"][1, 0, 0] = math.inf
        iterate(pack, diagnose=False)
        names = [name for name in state(pack) if name.startswith(("online/", "target/", "adam/"))]
        before = {name: state(pack)[name].clone() for name in names}
        for _ in range(3):
            iterate(pack, diagnose=False)
    assert pack.counters["frozen_at"].tolist() == [-1, 1]
    for name in names:
        same = (before[name][1] == state(pack)[name][1]) | before[name][1].isnan()
        assert same.all(), name
        assert not torch.equal(before[name][0], state(pack)[name][0]), name
