"""A member is the same to the bit in any lane of any pack, and differs from its neighbours where it should."""

import numpy as np
import pytest
import torch
from tiny_trial import BASE, rows_differ, run, started, tiny_spec

from trainer import sources
from trainer.config import FEATURES, ArmConfig, DataConfig, NetworkConfig
from trainer.step import iterate

TWELVE = [f"{arm} {seed} {fold}" for arm in ("base", "off", "wired") for seed in (3, 4) for fold in (0, 1)]
WHO = "wired 4 1"


@pytest.fixture(scope="module")
def alone(market_file):
    return run(tiny_spec(market_file, [WHO]))


def lanes_differ(alone, packed, lane):
    """(differing columns of all epochs, differing tensors of the final state)."""
    pairs = list(zip(alone.records, packed.records, strict=True))
    columns = {name for a, b in pairs for name in rows_differ(a, 0, b, lane, ("clock/", "member"))}
    tensors = packed.checkpoint.tensors
    state = {name for name, t in alone.checkpoint.tensors.items() if not torch.equal(t[0], tensors[name][lane])}
    return columns, state


@pytest.mark.parametrize(
    "members",
    [
        [WHO, *[m for m in TWELVE if m != WHO][:5]],  # lane 0 of 6
        [*[m for m in TWELVE if m != WHO][:5], WHO, *[m for m in TWELVE if m != WHO][5:]],  # lane 5 of 12
        TWELVE[::-1],
        [*TWELVE[:2], WHO],
    ],
    ids=["0 of 6", "5 of 12", "reversed 12", "2 of 3"],
)
def test_same_bits_in_any_lane_of_any_pack(market_file, alone, members):
    packed = run(tiny_spec(market_file, members))
    assert lanes_differ(alone, packed, members.index(WHO)) == (set(), set())


@pytest.mark.parametrize("width", [2, 31, 64])
def test_same_bits_alone_for_other_widths(market_file, width):
    """Matrix products choose their code by shape; widths of 8 alone would not have shown it."""
    changes = {"network": NetworkConfig(trunk=(width, width), head=width, atoms=51), "batch_size": 64, "epochs": 1}
    alone = run(tiny_spec(market_file, [WHO], **changes))
    assert lanes_differ(alone, run(tiny_spec(market_file, ["base 3 0", WHO], **changes)), 1) == (set(), set())


@pytest.mark.slow
def test_same_bits_in_any_lane_on_the_bundled_bars_with_wider_networks():
    """Three symbols, 64 units, chunks of the evaluation that end elsewhere in other packs."""
    wide = {"data": DataConfig(), "network": NetworkConfig(trunk=(64, 64), head=32, atoms=51), "batch_size": 64}
    short = {"epochs": 2, "updates_per_epoch": 20, "replay_capacity": 4096, "epsilon_decay_updates": 500}
    alone = run(tiny_spec("", [WHO], **wide, **short))
    for members in ([*TWELVE[:5], WHO], TWELVE[::-1]):
        packed = run(tiny_spec("", members, **wide, **short))
        assert lanes_differ(alone, packed, members.index(WHO)) == (set(), set())


def test_seeds_differ_in_initialisation_batches_and_trajectory(market_file):
    pack = started(tiny_spec(market_file, ["base 0 0", "base 1 0"]))
    drawn = torch.arange(pack.layout.total) < pack.layout.slices["noise"][0]  # noise scales start alike for all
    initial = pack.online.params[:, ~pack.layout.padding() & drawn]
    assert (initial[0] != initial[1]).float().mean() > 0.99
    assert not torch.equal(pack.replay.fields["row"][0], pack.replay.fields["row"][1])
    assert not torch.equal(pack.replay.fields["direction"][0], pack.replay.fields["direction"][1])
    rows = []
    original = sources.sample
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "sample", lambda *a: rows.append(original(*a).rows) or original(*a))
        iterate(pack, diagnose=False)
    assert not torch.equal(rows[0][0], rows[0][1])


def test_arms_see_common_random_numbers(market_file):
    """Arms start alike, walk alike while exploring, and draw the same places of the replay while priorities agree."""
    pack = started(tiny_spec(market_file, ["base 5 0", "wired 5 0"], epsilon_end=1.0))
    with torch.no_grad():
        for _ in range(8):
            iterate(pack, diagnose=False)
    assert not torch.equal(pack.online.params[0], pack.online.params[1])
    for name in ("row", "direction", "magnitude", "reward"):
        assert torch.equal(pack.replay.fields[name][0], pack.replay.fields[name][1]), name


def test_a_member_without_a_feature_is_the_same_beside_members_that_have_it(market_file):
    """Alone, the feature is absent from its pack; beside others, it is computed and left out by selection."""
    arms = (BASE, *(ArmConfig(name=f"off-{feature}", gems=BASE.gems, features_off=(feature,)) for feature in FEATURES))
    members = [f"{arm.name} 1 0" for arm in arms]
    packed = run(tiny_spec(market_file, members, arms=arms, epochs=2, score_epochs=1))
    digests = packed.records[-1].columns["purity/params_sha"]
    silent = {"off-distillation"}  # it acts only once learning health is low, and here it stays high
    assert len(set(digests)) == len(digests) - len(silent)
    for lane, member in enumerate(members):
        alone = run(tiny_spec(market_file, [member], arms=arms, epochs=2, score_epochs=1))
        pairs = zip(alone.records, packed.records, strict=True)
        assert not {name for a, b in pairs for name in rows_differ(a, 0, b, lane, ("clock/", "member"))}, member
        assert all(a.lines[0] == b.lines[lane] for a, b in zip(alone.records, packed.records, strict=True)), member


def test_folds_share_their_seed_but_not_their_bars(market_file):
    pack = started(tiny_spec(market_file, ["base 5 0", "base 5 1"]))
    assert torch.equal(pack.online.params[0], pack.online.params[1])
    assert not torch.equal(pack.replay.fields["row"][0], pack.replay.fields["row"][1])
    for member, fold in ((0, 0), (1, 1)):
        inside = [pack.table.rows(symbol, pack.table.folds[fold].spans["train"]) for symbol in (0, 1)]
        stored = pack.replay.fields["row"][member, :7].flatten().numpy()
        assert all(any(start <= row < stop - 1 for start, stop in inside) for row in stored)


def test_two_specs_in_one_process_give_the_same_bits_in_either_order(market_file):
    first = tiny_spec(market_file, ["base 1 0", "wired 1 1"])
    second = tiny_spec(market_file, ["base 1 0"], learning_rate=1e-2, batch_size=6, n_step=2)
    forwards = [run(first), run(second)]
    backwards = [run(second), run(first)][::-1]
    for one, other in zip(forwards, backwards, strict=True):
        for a, b in zip(one.records, other.records, strict=True):
            assert not any(rows_differ(a, row, b, row) for row in range(len(a.columns["seed"])))
            assert a.lines == b.lines
    assert not np.array_equal(forwards[0].records[-1].columns["loss/c51"], forwards[1].records[-1].columns["loss/c51"])
