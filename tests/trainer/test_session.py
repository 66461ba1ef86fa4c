"""A pack filled afresh in place is a new pack, to the bit; and it is kept only where nothing baked in differs."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch
from tiny_trial import BASE, OFF, TINY_MEMBERS, WIRED, run, tiny_spec

from trainer.bits import unequal
from trainer.config import GemConfig
from trainer.data.source import load_table
from trainer.loop import run_trial
from trainer.pack import build_pack
from trainer.reporter import MemoryReporter
from trainer.session import Session, structure


def tensors(thing, path="pack"):
    """(path, tensor) of everything inside, dataclasses, dicts and plain objects alike."""
    if isinstance(thing, torch.Tensor):
        yield path, thing
    elif isinstance(thing, dict):
        for name, value in thing.items():
            yield from tensors(value, f"{path}[{name}]")
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from tensors(getattr(thing, field.name), f"{path}.{field.name}")
    elif type(thing).__module__.startswith("trainer.") and hasattr(thing, "__dict__"):
        for name, value in vars(thing).items():
            yield from tensors(value, f"{path}.{name}")


READ_ONLY = (
    "pack.market.",
    "pack.layout",
    "pack.starts",
    "pack.distill_slots",
    "pack.signals._places",
    "pack.counters.clip_columns",
    "pack.gem_active",
    "pack.spans.",
)
WRITTEN = ("pack.market.costs", "pack.spans.fold")


def spoil(pack):
    """Garbage in every tensor that a trial may write or another trial may want different."""
    for path, tensor in tensors(pack):
        if path.startswith(READ_ONLY) and path not in WRITTEN:
            continue
        if path.endswith("spectral_on"):  # decides what is launched: equal in every trial that shares the pack
            continue
        tensor.fill_(float("nan") if tensor.is_floating_point() else 1)


def array(tensor):
    """numpy has no bfloat16."""
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def other(spec):
    """The same structure with other numbers everywhere that the step reads from tables."""
    market = spec.trainer.market.model_copy(update={"commission_bps": 3.0})
    network = spec.trainer.network.model_copy(update={"v_max": 5.0, "noise_sigma": 0.3})
    numbers = {"learning_rate": 3e-4, "discount": 0.8, "market": market, "network": network, "epochs": 2}
    members = tuple(m.model_copy(update={"seed": m.seed + 7, "fold": 1 - m.fold}) for m in spec.members)
    return spec.model_copy(update={"trainer": spec.trainer.model_copy(update=numbers), "members": members})


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_reset_pack_is_a_new_pack(market_file, precision):
    spec = tiny_spec(market_file, TINY_MEMBERS)
    spec = spec.model_copy(update={"machine": spec.machine.model_copy(update={"precision": precision})})
    table, session = load_table(spec.data), Session()
    with torch.no_grad():
        first, step = session.open(spec, table)
        spoil(first)
        second, again = session.open(other(spec), table)
        fresh = dict(tensors(build_pack(other(spec), table)))
    assert again is step
    kept = dict(tensors(second))
    assert kept.keys() == fresh.keys()
    assert {p: t.data_ptr() for p, t in kept.items()} == {p: t.data_ptr() for p, t in tensors(first)}
    different = [p for p, t in kept.items() if unequal(array(t), array(fresh[p])).any()]
    assert different == []


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {"trainer": s.trainer.model_copy(update={"n_step": 2})},
        lambda s: {"trainer": s.trainer.model_copy(update={"batch_size": 16})},
        lambda s: {"trainer": s.trainer.model_copy(update={"iqn": s.trainer.iqn.model_copy(update={"kappa": 0.5})})},
        lambda s: {"trainer": s.trainer.model_copy(update={"reconstruction_weight": 0.0})},
        lambda s: {"members": s.members[:-1]},
        lambda s: {"members": s.members[::-1]},
        lambda s: {"arms": (BASE, OFF, WIRED.model_copy(update={"features_off": ("iqn",)}))},
        lambda s: {"arms": (BASE, OFF, WIRED.model_copy(update={"gems": {"g10_temporal": GemConfig(mode="wired")}}))},
        lambda s: {"arms": (BASE.model_copy(update={"gems": dict(reversed(BASE.gems.items()))}), OFF, WIRED)},
        lambda s: {"machine": s.machine.model_copy(update={"capture": False})},
    ],
    ids=[
        "n_step",
        "batch",
        "kappa",
        "a feature off",
        "fewer members",
        "other order",
        "arm",
        "gems",
        "order of gems",
        "machine",
    ],
)
def test_what_is_baked_in_gets_a_new_pack(market_file, change):
    spec = tiny_spec(market_file, TINY_MEMBERS)
    assert structure(spec) == structure(other(spec))
    changed = spec.model_copy(update=change(spec))
    assert structure(spec) != structure(changed)
    session, table = Session(), load_table(spec.data)
    with torch.no_grad():
        first, step = session.open(spec, table)
        second, again = session.open(changed, table)
    assert second is not first
    assert again is not step or step.__name__ == "iterate"


def test_trials_of_one_session_equal_trials_of_their_own(market_file):
    specs = [tiny_spec(market_file, TINY_MEMBERS, epochs=2)]
    specs += [other(specs[0]), specs[0]]
    session = Session()
    for spec in specs:
        seen = MemoryReporter()
        run_trial(spec, seen, session=session)
        alone = run(spec)
        for name in ("purity/params_sha", "eval/judge/sharpe"):
            pairs = zip(seen.records, alone.records, strict=True)
            assert all(
                np.array_equal(a.columns[name], b.columns[name], equal_nan=name.startswith("eval")) for a, b in pairs
            )


@pytest.mark.parametrize(
    ("device", "precision", "expected"),
    [("cuda", "tf32", "high"), ("cuda", "float32", "highest"), ("cpu", "tf32", "highest"), ("cuda:1", "tf32", "high")],
)
def test_the_stated_precision_is_that_of_the_products(market_file, monkeypatch, device, precision, expected):
    """Set before anything is computed; on a CPU products are float32 whatever is asked of a GPU."""
    said = []

    def stop(word):
        said.append(word)
        raise InterruptedError

    monkeypatch.setattr(torch, "set_float32_matmul_precision", stop)
    spec = tiny_spec(market_file)
    machine = spec.machine.model_copy(update={"device": device, "precision": precision})
    with pytest.raises(InterruptedError):
        run_trial(spec.model_copy(update={"machine": machine}), MemoryReporter())
    assert said == [expected]
