"""What a step may and may not change: probing is free, diagnostics are free, the applied gradient is its rows."""

import math

import numpy as np
import pytest
import torch
from tiny_trial import OFF, TRAINER, WIRED, run, started, tiny_spec

from trainer import step
from trainer.components import NINE, c51_budget, list_components
from trainer.config import ArmConfig, EnsembleConfig, GemConfig
from trainer.pack import state
from trainer.params import C51_REACH
from trainer.signals import Signals
from trainer.step import iterate, update, walk

ALL = ["base 0 0", "off 0 0", "wired 0 0"]


def column(seen, name, row, epoch=-1):
    return np.asarray(seen.records[epoch].columns[name][row])


@pytest.fixture(scope="module")
def seen(market_file):
    return run(tiny_spec(market_file, ALL))


def test_probe_is_bit_identical_to_off_and_wired_is_not(seen):
    for record in seen.records:
        base, off, wired = record.columns["purity/params_sha"]
        assert base == off
        assert (wired != base) == (record.epoch > 0)
    tensors = seen.checkpoint.tensors
    for name, tensor in tensors.items():
        assert torch.equal(tensor[0], tensor[1]) or name == "signals", name  # the arm itself is written in the signals
    for name in ("online/params", "target/params", "adam/first", "adam/second", "online/left"):
        assert not torch.equal(tensors[name][0], tensors[name][2]), name


def test_a_pack_without_any_gem_has_the_same_bits(market_file, seen):
    alone = run(tiny_spec(market_file, ["off 0 0"]))
    assert alone.checkpoint.tensors["online/params"].equal(seen.checkpoint.tensors["online/params"][:1])
    assert "gem/g6_branch_indep/value" not in alone.records[-1].columns


@pytest.mark.parametrize("arm", ["base", "wired"])
def test_diagnostics_change_no_bit_of_the_state(market_file, arm):
    packs = [started(tiny_spec(market_file, [f"{arm} 0 0", f"{arm} 1 1"])) for _ in range(2)]
    with torch.no_grad():
        for index in range(6):
            iterate(packs[0], diagnose=True)
            iterate(packs[1], diagnose=index == 3)
    for name, tensor in state(packs[0]).items():
        assert torch.equal(tensor, state(packs[1])[name]), name


def test_the_dose_is_the_share_of_the_gradient(market_file, monkeypatch):
    """Over the slices that C51 reaches: a wired gem adds a gradient of dose x |c51_bs|."""
    caught, original = [], step.adam
    monkeypatch.setattr(step, "adam", lambda *a: (caught.append(a[2].clone()), original(*a)))
    arms = [
        ArmConfig(name=f"dose-{dose}", gems={"g12_predictive": GemConfig(mode="wired", dose=dose)})
        for dose in (0.01, 0.1, 1.0)
    ]
    members = [f"{arm.name} 0 0" for arm in arms]
    pack = started(tiny_spec(market_file, [*members, "off 0 0"], arms=(*arms, OFF)))
    with torch.no_grad():
        update(pack, diagnose=False)
    common = torch.cat([torch.arange(*pack.layout.slices[name]) for name in C51_REACH])
    added = (caught[-1][:3] - caught[-1][3])[:, common].double().norm(dim=1)
    added /= pack.row("c51")[3, common].double().norm()
    torch.testing.assert_close(added, torch.tensor([0.01, 0.1, 1.0], dtype=torch.float64), rtol=1e-4, atol=0)


def test_components_keep_the_order_of_the_nine_and_their_reach(market_file):
    pack = started(tiny_spec(market_file))
    names = [component.name for component in pack.components]
    assert names == [*NINE, "gem:g6_branch_indep", "gem:g10_temporal"]
    assert [c.name for c in list_components((), frozenset())] == ["c51", "c51_bs"]


def test_c51_is_scaled_to_its_budget():
    signals = Signals(4, (), torch.device("cpu"))
    signals["c51_budget"].fill_(2.0)
    signals["applied_norm_ema"].copy_(torch.tensor([0.0, 3.0, 3.0, 3.0]))
    scale, kept = c51_budget(torch.tensor([[60.0, 80.0], [3.0, 4.0], [0.0, 12.0], [0.0, 0.0]]), signals)
    assert scale.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert kept.tolist() == [100.0, 5.0, 6.0, 0.0]


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_gradient_of_c51_that_is_not_finite_is_not_scaled_away(norm):
    signals = Signals(2, (), torch.device("cpu"))
    signals["c51_budget"].fill_(2.0)
    signals["applied_norm_ema"].fill_(3.0)
    first, second = c51_budget(torch.tensor([[norm], [12.0]]), signals)[0].tolist()
    assert math.isnan(first)
    assert second == 0.5


def test_a_tight_budget_binds_in_training(market_file):
    lone = {"iqn": {"weight": 0.0}, "cql": {"weight": 0.0, "weight_end": 0.0}, "distillation": {"alpha_max": 0.0}}
    parts = {name: type(getattr(TRAINER, name))(**fields) for name, fields in lone.items()}
    parts |= {"ensemble": EnsembleConfig(weight=0.0), "reconstruction_weight": 0.0}
    pack = started(tiny_spec(market_file, c51_budget=0.5, **parts))
    with torch.no_grad():
        update(pack, diagnose=True)
        first = pack.gradient.double().norm().item()
        assert first == pytest.approx(pack.row("c51").double().norm().item(), rel=1e-5)
        assert pack.signals["applied_norm_ema"].item() == pytest.approx(first)
        walk(pack)
        update(pack, diagnose=True)
    assert pack.gradient.double().norm().item() == pytest.approx(0.5 * first, rel=1e-4)


def test_size_is_the_share_of_the_probed_gradient(market_file):
    """size = |coefficient x gem row| / |c51_bs|, here over one diagnostic update; the coefficient is the arm's."""
    gems = {"g10_temporal": GemConfig(coefficient=0.25), "g6_branch_indep": GemConfig()}
    arm = ArmConfig(name="base", gems=gems)
    spec = tiny_spec(market_file, arms=(arm, OFF, WIRED), epochs=1, updates_per_epoch=1, diagnostics_per_epoch=1)
    columns = run(spec).records[-1].columns
    for gem, weight in (("g10_temporal", 0.25), ("g6_branch_indep", 1e-4)):
        for part in ("trunk", "direction", "magnitude"):
            ratio = columns[f"grad/gem:{gem}/{part}"][0] / columns[f"grad/c51_bs/{part}"][0]
            assert columns[f"gem/{gem}/size/{part}"][0] == pytest.approx(weight * ratio, rel=1e-5)
        rows = [np.nansum([columns[f"grad/{c}/{s}"][0] ** 2 for s in C51_REACH]) for c in (f"gem:{gem}", "c51_bs")]
        assert columns[f"gem/{gem}/size"][0] == pytest.approx(weight * np.sqrt(rows[0] / rows[1]), rel=1e-5)


def test_an_off_gem_has_no_value_in_a_pack_where_others_probe_it(seen):
    assert column(seen, "gem/g10_temporal/mode", 1) == "off"
    for part in ("value", "size", "size/trunk"):
        assert np.isnan(column(seen, f"gem/g10_temporal/{part}", 1))
        assert column(seen, f"gem/g10_temporal/{part}", 0) > 0
    assert column(seen, "grad/gem:g10_temporal/trunk", 1) == 0.0
