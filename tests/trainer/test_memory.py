"""The predicted memory of a trial: what the pack holds to the byte, and what is alive at its fullest moments."""

from __future__ import annotations

import pytest
import torch
from live_tensors import LiveTensors, storages
from tiny_trial import BASE, OFF, WIRED, started, tiny_spec

from trainer import evaluate, moments, probe
from trainer.config import FEATURES, ArmConfig, EnsembleConfig, IQNConfig, NetworkConfig
from trainer.data.source import load_table
from trainer.loop import make_record
from trainer.memory import GRAPHS, bars_of, pack_bytes
from trainer.params import TARGETS
from trainer.step import iterate

C51_ONLY = ArmConfig(name="base", features_off=FEATURES)
GEMS_ONLY = ArmConfig(name="base", features_off=FEATURES, gems=BASE.gems)
TOLERANCE = 0.12
ALONE = 0.34  # a pack of one needs no copies with the heads of its ensemble in front, and may take less by this
INDEX_BYTES = 2048  # tables of slot numbers that all members share
WIDE = NetworkConfig(trunk=(64, 96), head=48, atoms=51)


def held(pack):
    return sum(storage.nbytes() for storage in storages(pack).values())


@pytest.mark.parametrize("arms", [(BASE, OFF, WIRED), (C51_ONLY,), (GEMS_ONLY,)], ids=["all", "c51", "gems"])
def test_what_a_member_holds_is_predicted_to_the_byte(market_file, arms):
    found = []
    for members in (("base 0 0",), ("base 0 0", "base 0 1", "base 1 0")):
        spec = tiny_spec(market_file, members, arms)
        pack = started(spec)
        found.append((pack_bytes(spec, bars_of(pack.table)).state, held(pack)))
    (one, held_one), (three, held_three) = found
    assert three - one == held_three - held_one
    assert 0 <= held_one - one <= INDEX_BYTES


CASES = {
    "default": {},
    "wide": {"batch_size": 48, "network": WIDE},
    "large replay": {"batch_size": 32, "replay_capacity": 65536},
    "many quantiles": {"batch_size": 64, "network": WIDE, "iqn": IQNConfig(quantiles=24)},
    "many heads": {"batch_size": 256, "ensemble": EnsembleConfig(heads=24, hidden=32)},
}


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_activations_at_their_peak(market_file, case, members):
    check_peaks(tiny_spec(market_file, [f"base {seed} 0" for seed in range(members)], **sized(CASES[case])))


@pytest.mark.parametrize("arm", [C51_ONLY, GEMS_ONLY, WIRED.model_copy(update={"name": "base"})])
def test_activations_of_other_arms(market_file, arm):
    check_peaks(tiny_spec(market_file, ["base 0 0"], (arm,), **sized({"network": WIDE})))


def sized(changes):
    """Activations of a batch of 8 would drown in the small tables."""
    return {"batch_size": 128, "replay_capacity": 1024, "environments": 16} | changes


def check_peaks(spec):
    pack = started(spec)
    predicted, trainer = pack_bytes(spec, bars_of(pack.table)), spec.trainer
    with torch.no_grad():
        for diagnose in (False, True):
            iterate(pack, diagnose)
        with LiveTensors() as updating:
            iterate(pack, False)
            iterate(pack, True)
        with LiveTensors() as between:
            make_record(pack, trainer.epochs)
    above = ALONE if pack.size == 1 else TOLERANCE
    for bytes_of, peak in ((predicted.iteration, updating.peak), (predicted.epoch_end, between.peak)):
        assert (1.0 - TOLERANCE) * peak <= bytes_of <= (1.0 + above) * peak


def test_the_states_of_an_epochs_end_are_those_of_probe_and_evaluation():
    assert probe.PROBE_STATES * TARGETS == moments.PROBE_STATES
    assert evaluate.CHUNK_STATES == moments.CHUNK_STATES


def test_every_size_that_may_grow_raises_the_prediction(market_file):
    bars = bars_of(load_table(tiny_spec(market_file).data))

    def total(members=1, **changes):
        return pack_bytes(tiny_spec(market_file, [f"base {seed} 0" for seed in range(members)], **changes), bars).total

    assert total() < min(total(2), total(batch_size=4096), total(replay_capacity=4096), total(network=WIDE))


def test_captured_graphs_keep_a_pool_of_their_own_and_write_no_checkpoint_on_the_device(market_file):
    spec = tiny_spec(market_file)
    bars = bars_of(load_table(spec.data))
    eager, captured = (pack_bytes(with_machine(spec, device="cuda", capture=c), bars) for c in (False, True))
    assert (eager.graphs, captured.graphs) == (0, GRAPHS * captured.iteration)
    assert captured.total - eager.total == captured.graphs
    assert eager.checkpoint == 0 < pack_bytes(spec, bars).checkpoint


def with_machine(spec, **changes):
    return spec.model_copy(update={"machine": spec.machine.model_copy(update=changes)})


def test_the_tool_counts_what_is_created_and_freed_and_not_what_was_there():
    before = torch.zeros(1000)
    with LiveTensors() as alive:
        first = before + 1  # 4000 bytes
        view = first[:10]
        del first
        second = view.new_zeros(500)  # 2000 more
        assert alive.now == 6000
        del view
        assert alive.now == 2000
        before.add_(second.sum())
        assert alive.now == 2000
    assert alive.peak == 6000
