"""Collapse recovery: which snapshots are kept, which one teaches, and where it lives."""

import pytest
import torch
from tiny_trial import run, started, tiny_spec

from trainer import loop
from trainer.health import observe_q_gap
from trainer.probe import Probe
from trainer.signals import Counters, Signals
from trainer.snapshots import accepts, make_snapshots, offer
from trainer.step import iterate

CPU = torch.device("cpu")


def probe(*gaps):
    gap = torch.tensor(gaps)
    none = torch.zeros_like(gap)
    return Probe({"direction": gap, "magnitude": gap}, {}, {}, none, none, none, none)


class Recovery:
    """Members whose parameters are their epoch number, and whose Q-gaps are given."""

    def __init__(self, members=1, ring=3):
        self.signals, self.counters = Signals(members, (), CPU), Counters(members, CPU)
        self.signals["distill_alpha_max"].fill_(0.1)
        self.snapshots, self.epoch = make_snapshots(ring, torch.zeros(members, 4)), 0

    def end_epoch(self, *gaps):
        self.epoch += 1
        observe_q_gap(self.signals, probe(*gaps))
        before = self.counters["snapshots_accepted"].clone()
        params = torch.full_like(self.snapshots.best, float(self.epoch))
        offer(self.snapshots, params, self.signals, self.counters, self.epoch)
        return (self.counters["snapshots_accepted"] > before).tolist()

    @property
    def teacher(self):
        return self.snapshots.best[:, 0].tolist()


def test_the_gate_is_half_of_the_decaying_peak():
    """Peak 0.5: floor 0.25; 0.25 is 0.2475 above the next floor and accepted, 0.24 is below 0.245025 and is not."""
    recovery = Recovery()
    assert recovery.end_epoch(0.5) == [True]
    assert recovery.end_epoch(0.25) == [True]
    assert recovery.end_epoch(0.24) == [False]
    assert recovery.end_epoch(0.0) == [False]


@pytest.mark.parametrize("peak", [0.5, 0.05])
def test_the_gate_adapts_to_the_size_of_the_gap(peak):
    recovery = Recovery()
    recovery.end_epoch(peak)
    assert recovery.signals["q_gap_floor"].item() == pytest.approx(0.5 * peak)
    assert recovery.end_epoch(0.6 * peak) == [True]
    assert recovery.end_epoch(0.4 * peak) == [False]


def test_a_low_gap_is_accepted_again_once_the_peak_has_decayed():
    """0.99^n halves in 69 epochs: a gap at a quarter of the old peak is refused at first and accepted later."""
    recovery = Recovery()
    recovery.end_epoch(1.0)
    accepted = [recovery.end_epoch(0.26)[0] for _ in range(80)]
    assert not any(accepted[:60])
    assert accepted[-1]


def test_a_gap_of_zero_is_never_accepted_even_at_a_floor_of_zero():
    recovery = Recovery()
    assert recovery.end_epoch(0.0) == [False]
    assert recovery.signals["distill_armed"].item() == 0.0
    assert recovery.teacher == [0.0]


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_gap_that_is_not_finite_is_never_accepted(broken):
    recovery = Recovery()
    recovery.end_epoch(0.3)
    assert recovery.end_epoch(broken) == [False]
    assert recovery.teacher == [1.0]


def test_the_largest_raw_gap_of_the_ring_teaches():
    recovery = Recovery(ring=3)
    teachers = []
    for gap in (0.5, 0.9, 0.6, 0.7, 0.8, 0.75):
        recovery.end_epoch(gap)
        teachers += recovery.teacher
    assert teachers == [1.0, 2.0, 2.0, 2.0, 5.0, 5.0]  # epoch 2 leaves the ring with the third acceptance after it
    assert recovery.counters["snapshot_epoch"].item() == 5


def test_a_refused_epoch_leaves_teacher_and_ring_alone():
    recovery = Recovery()
    recovery.end_epoch(1.0)
    kept = {name: tensor.clone() for name, tensor in recovery.snapshots.tensors().items()}
    recovery.end_epoch(0.1)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in recovery.snapshots.tensors().items())


def test_members_do_not_mix():
    recovery = Recovery(members=3)
    recovery.counters["frozen_at"][2] = 7
    assert recovery.end_epoch(1.0, 1.0, 1.0) == [True, True, False]
    assert recovery.end_epoch(0.1, 0.9, 0.9) == [False, True, False]
    assert recovery.teacher == [1.0, 1.0, 0.0]  # 0.9 is a raw gap below 1.0: the older snapshot keeps teaching
    assert recovery.signals["distill_armed"].tolist() == [1.0, 1.0, 0.0]


def test_a_member_that_does_not_distil_keeps_no_snapshots():
    recovery = Recovery(members=2)
    recovery.signals["distill_alpha_max"][1] = 0.0
    assert recovery.end_epoch(1.0, 1.0) == [True, False]


def test_the_gate_reads_q_gap_and_floor_only():
    """No validation return, win rate or average enters: everything else in the table may be anything."""
    recovery = Recovery()
    recovery.end_epoch(0.5)
    keep = ("q_gap", "q_gap_floor", "distill_alpha_max")
    for name in recovery.signals.names:
        if name not in keep:
            recovery.signals[name].fill_(float("nan"))
    assert accepts(recovery.signals, recovery.counters).tolist() == [True]


def test_the_teacher_starts_as_the_student_and_pulls_nowhere(market_file):
    pack = started(tiny_spec(market_file))
    assert torch.equal(pack.snapshots.best, pack.online.params)
    pack.signals["learning_health"].zero_()
    with torch.no_grad():
        iterate(pack, diagnose=False)
    assert pack.signals["distill_alpha"].item() == 0.0  # no snapshot was accepted yet


def test_the_teachers_buffer_keeps_its_place_in_memory(market_file, monkeypatch):
    places, original = set(), loop.make_record
    monkeypatch.setattr(loop, "make_record", lambda p, e: (places.add(p.snapshots.best.data_ptr()), original(p, e))[1])
    seen = run(tiny_spec(market_file))
    assert len(places) == 1
    assert seen.records[-1].columns["counter/snapshots_accepted"][0] > 0


def test_the_teacher_survives_a_resume(market_file):
    spec = tiny_spec(market_file)
    first = run(spec, stop_after=2).checkpoint.tensors
    assert torch.equal(first["snapshots/best"], first["snapshots/params"][:, int(first["snapshots/q_gap"].argmax())])


def test_low_health_pulls_towards_the_teacher(market_file, monkeypatch):
    """A trial whose gap is made to look collapsed from the second epoch on ends nearer to its first snapshot."""
    shares = iter([1.0, 1.0, 0.1, 0.1, 0.1] * 2)
    original = loop.measure_probe

    def collapsing(pack):
        found, share = original(pack), next(shares)
        found.gap.update({branch: gap * share for branch, gap in found.gap.items()})
        return found

    monkeypatch.setattr(loop, "measure_probe", collapsing)
    ends = {}
    for weight in (0.0, 1.0):
        distillation = tiny_spec(market_file).trainer.distillation.model_copy(update={"alpha_max": weight})
        seen = run(tiny_spec(market_file, epochs=4, updates_per_epoch=12, distillation=distillation))
        ends[weight] = seen.checkpoint.tensors["online/params"]
        if weight:
            assert [r.columns["signal/distill_alpha"][0] > 0 for r in seen.records] == [False, False, False, True, True]
            teacher = seen.checkpoint.tensors["snapshots/best"]
    assert (ends[1.0] - teacher).norm() < 0.7 * (ends[0.0] - teacher).norm()
