"""Every configuration field changes what a trial does; a new field without an entry here fails."""

import pandas as pd
import pytest
import torch
from tiny_trial import BASE, FOLDS, NETWORK, TRAINER, gem_modes, rows_differ, run, synthetic_bars, tiny_spec

from trainer import loop
from trainer.config import (
    FEATURES,
    ArmConfig,
    CQLConfig,
    DataConfig,
    DistillationConfig,
    EnsembleConfig,
    FoldConfig,
    GemConfig,
    IQNConfig,
    MarketConfig,
    NetworkConfig,
    TrainerConfig,
)
from trainer.data.errors import DataError
from trainer.signals import SLOTS

# Field -> another value, or (other fields that let it matter, the value to compare with, another value).
TRAINER_FIELDS = {
    "epochs": 4,
    "updates_per_epoch": 5,
    "batch_size": 6,
    "environments": 2,
    "episode_bars": 5,
    "replay_capacity": 128,
    "n_step": 2,
    "discount": 0.5,
    "learning_rate": 3e-3,
    "adam_beta1": 0.5,
    "adam_beta2": 0.9,
    "adam_epsilon": 1e-2,
    "clip_norm": 0.01,
    "target_rate": 0.5,
    "epsilon_start": 0.5,
    "epsilon_end": 0.9,
    "epsilon_decay_updates": 4,
    "c51_budget": 0.1,
    "norm_ema_rate": ({"c51_budget": 0.5}, 0.01, 0.9),
    "priority_alpha": 0.9,
    "priority_beta_start": 0.9,
    "priority_beta_end": 0.4,
    "priority_beta_updates": 5,
    "reconstruction_weight": 0.0,
    "diagnostics_per_epoch": 1,
    "score_epochs": 2,
}
NETWORK_FIELDS = {
    "trunk": (8, 9),
    "head": 9,
    "atoms": 12,
    "v_max": 5.0,
    "moving_support": True,
    "spectral_norm": False,
    "noisy_nets": False,
    "noise_sigma": 0.1,
}
OPEN = {"warmup_updates": 2, "ramp_updates": 3}  # within the 12 updates of a tiny trial
PARTS = {
    "iqn": {
        "weight": (OPEN, 2.0, 0.5),
        "quantiles": 6,
        "cosines": 8,
        "kappa": 0.1,
        "warmup_updates": 2,
        "ramp_updates": ({"warmup_updates": 2}, 3, 30),
    },
    "ensemble": {"weight": 0.0, "heads": 3, "hidden": 8, "mask_probability": 0.9, "bonus": 3.0},
    "cql": {"weight": 1.0, "weight_end": 0.5, "anneal_updates": 5, "budget": 0.01},
    "distillation": {"alpha_max": 0.0, "health_on": 0.9, "ring": 1},
}
MARKET_FIELDS = {
    "commission_bps": 5.0,
    "half_spread_bps": 5.0,
    "slippage_bps": 5.0,
    "financing_rate": 0.1,
    "borrow_rate": 0.1,
    "rebalance_band": 0.5,
    "bankruptcy_equity": ({"half_spread_bps": 200.0}, 0.05, 0.9),
}
FOLD_FIELDS = {
    "count": 3,
    "mode": "rolling",
    "holdout": 0.15,
    "judge": 0.1,
    "validation": 0.12,
    "train": ({"mode": "rolling"}, 0.3, 0.25),
    "purge": 8,
    "embargo": 3,
}
GEM_FIELDS = {"mode": "wired", "coefficient": 0.5, "dose": ({"mode": "wired"}, 0.1, 0.4)}
DATA_FIELDS = {"source", "symbols", "adjust", "on_bad", "on_duplicate", "max_gap_days"}  # each has a test of its own


def test_every_field_has_an_entry():
    listed = {
        TrainerConfig: TRAINER_FIELDS.keys() | PARTS.keys() | {"network", "market"},
        NetworkConfig: NETWORK_FIELDS.keys(),
        MarketConfig: MARKET_FIELDS.keys(),
        FoldConfig: FOLD_FIELDS.keys(),
        DataConfig: DATA_FIELDS | {"folds"},
        GemConfig: GEM_FIELDS.keys(),
        IQNConfig: PARTS["iqn"].keys(),
        EnsembleConfig: PARTS["ensemble"].keys(),
        CQLConfig: PARTS["cql"].keys(),
        DistillationConfig: PARTS["distillation"].keys(),
        ArmConfig: {"name", "gems", "features_off"},
    }
    for model, names in listed.items():
        assert names == model.model_fields.keys(), model.__name__


CONFIGURED = [f"signal/{slot.name}" for slot in SLOTS if slot.writer == "config"]
FEATURE_ECHOES = tuple(f"feature/{feature}/on" for feature in FEATURES)
ECHOES = (*CONFIGURED, *FEATURE_ECHOES, "signal/gem/", "gem/g10_temporal/mode", "coefficient/")


def differs(one, other):
    """Whether two runs leave different numbers, beyond the columns that repeat the configuration."""
    if len(one.records) != len(other.records):
        return True
    skip = ("clock/", "trial", "config", *ECHOES)
    pairs = zip(one.records, other.records, strict=True)
    return any(a.columns.keys() != b.columns.keys() or rows_differ(a, 0, b, 0, skip) for a, b in pairs)


RUNS = {}


def outcome(spec):
    """The run of `spec`, kept: most comparisons share their first side."""
    key = spec.model_dump_json()
    if key not in RUNS:
        RUNS[key] = run(spec)
    return RUNS[key]


def compare(make, field, entry):
    """`make(changes)` gives a spec; its default and the changed one must differ."""
    companions, default, value = entry if isinstance(entry, tuple) and isinstance(entry[0], dict) else ({}, None, entry)
    first = companions if default is None else companions | {field: default}
    assert differs(outcome(make(first)), outcome(make(companions | {field: value}))), f"{field} changes nothing"


def test_the_comparison_sees_no_difference_where_there_is_none(market_file):
    assert not differs(run(tiny_spec(market_file)), run(tiny_spec(market_file)))


@pytest.mark.parametrize("field", TRAINER_FIELDS)
def test_trainer(market_file, field):
    compare(lambda changes: tiny_spec(market_file, **changes), field, TRAINER_FIELDS[field])


@pytest.mark.parametrize("field", NETWORK_FIELDS)
def test_network(market_file, field):
    make = lambda changes: tiny_spec(market_file, network=NETWORK.model_copy(update=changes))
    compare(make, field, NETWORK_FIELDS[field])


@pytest.mark.parametrize(("part", "field"), [(p, f) for p in PARTS if p != "distillation" for f in PARTS[p]])
def test_part(market_file, part, field):
    def make(changes):
        return tiny_spec(market_file, **{part: getattr(TRAINER, part).model_copy(update=changes)})

    compare(make, field, PARTS[part][field])


def collapse(monkeypatch):
    """Q-gaps that rise for three epochs and then look like a fifth of what they were: the pull is needed."""
    shares = iter([1.0, 1.0, 0.9, 0.8, 0.2, 0.2, 0.2] * 2)
    original = loop.measure_probe

    def measure(pack):
        found, share = original(pack), next(shares)
        found.gap.update({branch: torch.full_like(gap, share) for branch, gap in found.gap.items()})
        return found

    monkeypatch.setattr(loop, "measure_probe", measure)


@pytest.mark.parametrize("field", PARTS["distillation"])
def test_distillation(market_file, field, monkeypatch):
    collapse(monkeypatch)
    runs = []
    for changes in ({}, {field: PARTS["distillation"][field]}):
        distillation = TRAINER.distillation.model_copy(update=changes)
        runs.append(run(tiny_spec(market_file, epochs=6, distillation=distillation)))
    first, second = (seen.checkpoint.tensors["online/params"] for seen in runs)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_off(market_file, feature, monkeypatch):
    if feature == "distillation":
        collapse(monkeypatch)
    arms = [(ArmConfig(name="base", gems=BASE.gems, features_off=off),) for off in ((), (feature,))]
    first, second = (run(tiny_spec(market_file, arms=arm, epochs=6)).checkpoint.tensors for arm in arms)
    assert not torch.equal(first["online/params"], second["online/params"])


@pytest.mark.parametrize("field", MARKET_FIELDS)
def test_market(market_file, field):
    make = lambda changes: tiny_spec(market_file, market=TRAINER.market.model_copy(update=changes))
    compare(make, field, MARKET_FIELDS[field])


@pytest.mark.parametrize("field", FOLD_FIELDS)
def test_folds(market_file, field):
    data = lambda changes: DataConfig(source=str(market_file), folds=FOLDS.model_copy(update=changes))
    compare(lambda changes: tiny_spec(market_file, data=data(changes)), field, FOLD_FIELDS[field])


@pytest.mark.parametrize("field", GEM_FIELDS)
def test_gem(market_file, field):
    def make(changes):
        setting = GemConfig().model_copy(update=changes)
        return tiny_spec(market_file, arms=(ArmConfig(name="base", gems={"g10_temporal": setting}),))

    compare(make, field, GEM_FIELDS[field])


def test_arm(market_file):
    arm = ArmConfig(name="base", gems=gem_modes(g12_predictive="off"))
    assert differs(outcome(tiny_spec(market_file, arms=(BASE,))), outcome(tiny_spec(market_file, arms=(arm,))))


def with_data(bars, path, **changes):
    bars.to_csv(path, index=False)
    return tiny_spec(path, data=DataConfig(source=str(path), folds=FOLDS, **changes))


def test_source_symbols_and_gap(market_file, tmp_path):
    other = with_data(synthetic_bars(seed=8), tmp_path / "other.csv")
    assert differs(outcome(tiny_spec(market_file)), outcome(other))
    for change in ({"symbols": ("AA",)}, {"max_gap_days": 40.0}):
        data = DataConfig(source=str(market_file), folds=FOLDS, **change)
        assert differs(outcome(tiny_spec(market_file)), outcome(tiny_spec(market_file, data=data))), change


def test_adjust(tmp_path):
    bars = synthetic_bars()
    bars["adj_close"] = bars["close"] * (1 - 0.3 * (bars["timestamp"] < bars["timestamp"].iloc[240]))
    specs = [with_data(bars, tmp_path / "adjusted.csv", adjust=adjust) for adjust in ("auto", "none")]
    assert differs(*map(outcome, specs))


def test_on_bad(tmp_path):
    bars = synthetic_bars()
    bars.loc[200, "high"] = bars.loc[200, "low"] / 2
    with pytest.raises(DataError, match="on_bad"):
        run(with_data(bars, tmp_path / "bad.csv"))
    assert outcome(with_data(bars, tmp_path / "bad.csv", on_bad="drop")).summary


def test_on_duplicate(tmp_path):
    bars = synthetic_bars()
    again = bars.iloc[[200]].assign(close=bars.loc[200, "low"], open=bars.loc[200, "low"])
    bars = pd.concat([bars.iloc[:201], again, bars.iloc[201:]])
    with pytest.raises(DataError, match="on_duplicate"):
        run(with_data(bars, tmp_path / "twice.csv"))
    specs = [with_data(bars, tmp_path / "twice.csv", on_duplicate=keep) for keep in ("first", "last")]
    assert differs(*map(outcome, specs))
