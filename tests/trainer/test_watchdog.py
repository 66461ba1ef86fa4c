"""The watchdog: silent in a healthy trial, and each planted fault of the older trainer raises it."""

import pytest
import torch
from planted_faults import FAULTS, gate_on_a_stuck_average
from tiny_trial import BASE, run, tiny_spec

from trainer import health, loop
from trainer.config import ArmConfig, GemConfig
from trainer.watchdog import INERT_EPOCHS, STUCK_EPOCHS

LONG = {"epochs": 8, "updates_per_epoch": 6, "score_epochs": 1}


def collapsing(monkeypatch, after=1, share=0.1):
    """From the epoch `after` + 1 on every Q-gap is measured at a tenth of what it is."""
    original, count = loop.measure_probe, iter(range(1000))

    def measure(pack):
        found = original(pack)
        if next(count) > after:
            found.gap.update({branch: gap * share for branch, gap in found.gap.items()})
        return found

    monkeypatch.setattr(loop, "measure_probe", measure)


def alarms(market_file, **changes):
    seen = run(tiny_spec(market_file, **(LONG | changes)))
    return [record.columns["watchdog"][0] for record in seen.records], seen


def test_a_healthy_trial_raises_nothing(market_file):
    found, seen = alarms(market_file)
    assert found == [""] * 9
    assert all(line.endswith("watchdog [ok]") for record in seen.records for line in record.lines)


def test_recovery_at_work_raises_nothing(market_file, monkeypatch):
    collapsing(monkeypatch)
    found, seen = alarms(market_file)
    assert found == [""] * 9
    assert seen.records[-1].columns["grad/distill/trunk"][0] > 0


@pytest.mark.parametrize("bug", FAULTS)
def test_each_fault_of_the_older_trainer_is_called_inert(market_file, monkeypatch, bug):
    collapsing(monkeypatch)
    FAULTS[bug](monkeypatch.setattr)
    found, seen = alarms(market_file)
    first = next(epoch for epoch, text in enumerate(found) if text)
    assert all("INERT distill" in text for text in found[first:])
    assert first == 2 + INERT_EPOCHS  # health is low from epoch 2 on, so epochs 3, 4 and 5 should have pulled
    assert seen.records[-1].columns["grad/distill/trunk"][0] == 0
    assert seen.records[-1].lines[0].endswith("watchdog [INERT distill]")


def test_the_three_faults_leave_the_parameters_of_no_distillation(market_file, monkeypatch):
    """What made them silent: the trial trains exactly as if the mechanism did not exist."""
    off = ArmConfig(name="base", gems=BASE.gems, features_off=("distillation",))
    with monkeypatch.context() as patch:
        collapsing(patch)
        without = alarms(market_file, arms=(off,))[1].checkpoint.tensors["online/params"]
    with monkeypatch.context() as patch:
        collapsing(patch)
        ours = alarms(market_file)[1].checkpoint.tensors["online/params"]
    assert not torch.equal(ours, without)
    for name, bug in FAULTS.items():
        with monkeypatch.context() as patch:
            collapsing(patch)
            bug(patch.setattr)
            assert torch.equal(alarms(market_file)[1].checkpoint.tensors["online/params"], without), name


def test_a_frozen_average_is_called_stuck(market_file, monkeypatch):
    """The average of the older trainer: its update was behind `if false` and it stood at 0 while gaps moved."""
    monkeypatch.setattr(health, "_average", lambda slot, value: None)
    found, _ = alarms(market_file)
    first = next(epoch for epoch, text in enumerate(found) if text)
    assert first == STUCK_EPOCHS
    for name in ("q_gap_ema_direction", "q_gap_ema_magnitude", "value_high"):
        assert f"STUCK {name}" in found[-1]
    assert "learning_health" not in found[-1]


def test_health_that_stands_still_is_called_stuck_unless_it_is_full(market_file, monkeypatch):
    original = loop.observe_q_gap

    def frozen(signals, probe):
        original(signals, probe)
        signals["learning_health"].fill_(0.7)

    monkeypatch.setattr(loop, "observe_q_gap", frozen)
    found, _ = alarms(market_file)
    assert found[-1] == "STUCK learning_health"


def test_health_written_elsewhere_is_called_overridden(market_file, monkeypatch):
    """The older trainer inflated it to 0.75 when its win rate was good."""
    original, count = loop.train_epoch, iter(range(1, 100))

    def inflate(pack, step):
        yield from original(pack, step)
        if next(count) == 3:
            pack.signals["learning_health"].fill_(0.75)

    monkeypatch.setattr(loop, "train_epoch", inflate)
    found, _ = alarms(market_file)
    assert found[:3] == ["", "", ""]
    assert all("OVERRIDDEN learning_health" in text for text in found[3:])


def test_a_wired_gem_that_sends_nothing_is_called_inert(market_file, tmp_path):
    file = tmp_path / "nothing.py"
    file.write_text(
        "from trainer.gems import Gem\n\nclass Nothing(Gem):\n    name = 'nothing'\n    inputs = ('trunk',)\n\n"
        "    def forward(self, ctx):\n        return 0.0 * ctx.trunk.sum(-1)\n"
    )
    arm = ArmConfig(name="base", gems={f"{file}:Nothing": GemConfig(mode="wired")})
    found, _ = alarms(market_file, arms=(arm,))
    assert found[INERT_EPOCHS] == "INERT gem:nothing"


def test_the_memory_of_the_watchdog_survives_a_resume(market_file, monkeypatch):
    gate_on_a_stuck_average(monkeypatch.setattr)
    spec = tiny_spec(market_file, **LONG)
    with monkeypatch.context() as patch:
        collapsing(patch)
        whole = run(spec)
    with monkeypatch.context() as patch:
        collapsing(patch)
        half = run(spec, stop_after=4)
        rest = run(spec, start=half.checkpoint)
    assert [r.columns["watchdog"] for r in half.records + rest.records] == [
        r.columns["watchdog"] for r in whole.records
    ]
