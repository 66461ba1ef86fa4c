"""A trial continued from any checkpoint equals the one that was never interrupted."""

import pytest
import torch
from tiny_trial import rows_differ, run, started, tiny_spec

from trainer.pack import load_state, state
from trainer.step import iterate

MEMBERS = ["base 0 0", "wired 1 1"]


@pytest.fixture(scope="module")
def whole(market_file):
    return run(tiny_spec(market_file, MEMBERS))


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_every_column_and_the_final_state_are_equal(market_file, whole, stop):
    spec = tiny_spec(market_file, MEMBERS)
    first = run(spec, stop_after=stop)
    assert first.summary is None
    second = run(spec, start=first.checkpoint)
    records = first.records + second.records
    assert [record.epoch for record in records] == [0, 1, 2, 3]
    for a, b in zip(whole.records, records, strict=True):
        assert not rows_differ(a, 0, b, 0) + rows_differ(a, 1, b, 1)
        assert (a.objective, a.lines) == (b.objective, b.lines)
    assert whole.checkpoint.tensors.keys() == second.checkpoint.tensors.keys()
    for name, tensor in whole.checkpoint.tensors.items():
        assert torch.equal(tensor, second.checkpoint.tensors[name]), name
    assert second.summary == whole.summary


def test_a_checkpoint_of_the_last_epoch_has_nothing_left_to_do(market_file, whole):
    seen = run(tiny_spec(market_file, MEMBERS), start=whole.checkpoint)
    assert seen.records == []
    assert seen.summary == whole.summary


def test_every_tensor_that_training_changes_is_in_the_state(market_file, whole):
    """Loading a state into a pack of another history makes the two equal from there on."""
    one, other = started(tiny_spec(market_file, MEMBERS)), started(tiny_spec(market_file, MEMBERS))
    with torch.no_grad():
        for _ in range(5):
            iterate(other, diagnose=True)
        load_state(other, {name: tensor.clone() for name, tensor in state(one).items()})
        for _ in range(5):
            iterate(one, diagnose=False)
            iterate(other, diagnose=False)
    assert all(torch.equal(tensor, state(other)[name]) for name, tensor in state(one).items())


def test_a_checkpoint_of_another_spec_is_refused(market_file, whole):
    pack = started(tiny_spec(market_file, MEMBERS[:1]))
    with pytest.raises(ValueError, match=r"checkpoint tensor signals: \(2, \d+\)"):
        load_state(pack, whole.checkpoint.tensors)
    tensors = dict(whole.checkpoint.tensors)
    del tensors["adam/first"]
    with pytest.raises(ValueError, match="adam/first"):
        load_state(started(tiny_spec(market_file, MEMBERS)), tensors)
