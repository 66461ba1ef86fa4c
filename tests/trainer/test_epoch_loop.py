"""Epochs from the untrained network to the last record: what is recorded when, the objective, stopping."""

import math

import numpy as np
import pytest
from tiny_trial import run, tiny_spec

from trainer import loop, step
from trainer.columns import ACTION_COLUMNS, SPANS
from trainer.components import NINE
from trainer.config import BUILTIN_GEMS, FEATURES
from trainer.data.source import load_table
from trainer.measurement import LOSSES, slice_norms
from trainer.params import SLICES
from trainer.probe import BRANCHES, LAYERS
from trainer.sharpe import FLOOR, iqm, sharpe
from trainer.signals import COUNTERS, SLOTS

MEMBERS = ["base 0 0", "base 1 0", "base 2 1", "wired 0 0", "off 0 0"]


@pytest.fixture(scope="module")
def seen(market_file):
    return run(tiny_spec(market_file, MEMBERS, score_epochs=2))


@pytest.fixture(scope="module")
def last(seen):
    return seen.records[-1].columns


def promised():
    """Column names that readers rely on."""
    names = {"trial", "config", "arm", "seed", "fold", "member", "epoch", "updates", "status", "frozen_at"}
    components = [*NINE, "gem:g6_branch_indep", "gem:g10_temporal"]
    names |= {f"grad/{component}/{part}" for component in components for part in SLICES}
    names |= {f"coefficient/{component}" for component in components} | {f"loss/{loss}" for loss in LOSSES}
    names |= {"grad/applied", "grad/clip_factor", "watchdog"}
    for gem in BUILTIN_GEMS:
        names |= {f"gem/{gem}/{part}" for part in ("mode", "value", "size", *(f"size/{s}" for s in SLICES))}
    names |= {f"feature/{name}" for name in ("spectral_norm", "noisy_nets", "ensemble_kl")}
    names |= {f"feature/{name}/on" for name in FEATURES} | {"edge_mass", "purity/params_sha", "q_gap"}
    names |= {f"{kind}/{branch}" for kind in ("q_gap", "entropy") for branch in BRANCHES}
    names |= {f"dormant/{layer}" for layer in LAYERS}
    names |= {f"signal/{slot.name}" for slot in SLOTS} | {f"counter/{name}" for name in COUNTERS}
    names |= {f"act/{name}" for name in ACTION_COLUMNS}
    numbers = ("sharpe", "se", "status", "n", "log_wealth", "turnover", "max_drawdown")
    names |= {f"eval/{span}/{name}" for span in SPANS for name in numbers}
    names |= {f"{kind}/{span}" for span in SPANS for kind in ("returns", "exposure")}
    return names | {"clock/seconds"}


def test_every_promised_column_is_there_in_every_epoch(seen):
    for record in seen.records:
        assert promised() <= record.columns.keys()
        assert {len(column) for column in record.columns.values()} == {len(MEMBERS)}
    assert [record.columns.keys() == seen.records[0].columns.keys() for record in seen.records] == [True] * 4


def test_dtypes_are_the_same_in_every_epoch(seen):
    def kinds(record):
        return {name: str(np.asarray(column[0]).dtype) for name, column in record.columns.items()}

    text = {name for name, kind in kinds(seen.records[0]).items() if kind.startswith("<U")}
    expected = {name: kind for name, kind in kinds(seen.records[0]).items() if name not in text}
    for record in seen.records[1:]:
        assert {name: kind for name, kind in kinds(record).items() if name not in text} == expected


def test_epochs_and_updates(seen):
    assert [record.epoch for record in seen.records] == [0, 1, 2, 3]
    assert [record.columns["updates"].tolist() for record in seen.records] == [[4 * epoch] * 5 for epoch in range(4)]
    assert seen.summary == {"epochs": 3, "members": 5, "frozen": []}
    assert [record.columns["seed"].tolist() for record in seen.records] == [[0, 1, 2, 0, 0]] * 4


def test_epoch_0_is_the_untrained_network(seen):
    first = seen.records[0].columns
    assert all(math.isnan(value) for value in first["loss/c51"])
    assert all(math.isnan(value) for value in first["grad/applied"])
    assert first["signal/q_gap_peak"].tolist() == [0.0] * 5
    assert first["counter/adam_steps"].tolist() == [0] * 5
    same_seed = [first["purity/params_sha"][row] for row in (0, 3, 4)]
    assert len(set(same_seed)) == 1


def test_train_at_both_ends_and_judge_in_scored_epochs_only(seen):
    evaluated = {"train": [True, False, False, True], "validation": [True] * 4, "judge": [True, False, True, True]}
    for span, expected in evaluated.items():
        columns = [record.columns for record in seen.records]
        assert [bool(np.isfinite(c[f"eval/{span}/sharpe"]).all()) for c in columns] == expected
        assert [c[f"eval/{span}/status"][0] != "" for c in columns] == expected
        assert [int(c[f"eval/{span}/n"][0]) > 0 for c in columns] == expected
        assert [len(c[f"returns/{span}"][0]) > 0 for c in columns] == expected
        assert [len(c[f"exposure/{span}"][0]) > 0 for c in columns] == expected


def test_sharpe_is_the_project_s_own_of_the_recorded_returns(last, market_file):
    table = load_table(tiny_spec(market_file).data)
    for span in SPANS:
        for row in range(len(MEMBERS)):
            estimate = sharpe(last[f"returns/{span}"][row], periods_per_year=table.periods_per_year)
            if last[f"eval/{span}/status"][row] in ("ok", "implausible"):
                assert last[f"eval/{span}/sharpe"][row] == estimate.value
                assert last[f"eval/{span}/se"][row] == estimate.se


def test_objective_is_the_interquartile_mean_of_the_base_arm(seen):
    for record in seen.records:
        assert record.objective == pytest.approx(iqm(record.columns["eval/validation/sharpe"][:3]))
        assert record.objective >= FLOOR


def test_loss_is_the_mean_of_all_updates_and_norms_of_the_diagnostic_ones(market_file, monkeypatch):
    losses, norms, values = [], [], []
    update, rows = step.observe_update, step.observe_rows

    def observe_rows(pack, found, coefficients):
        norms.append(slice_norms(pack.row("c51")[None], pack.starts)[0, 0, 0].item())
        values.append(found["g6_branch_indep"].item())
        rows(pack, found, coefficients)

    def observe_update(pack, found, *others):
        losses.append(found["c51"].item())
        update(pack, found, *others)

    monkeypatch.setattr(step, "observe_update", observe_update)
    monkeypatch.setattr(step, "observe_rows", observe_rows)
    columns = run(tiny_spec(market_file)).records[-1].columns
    assert (len(losses), len(norms)) == (12, 6)
    assert columns["loss/c51"][0] == pytest.approx(np.mean(losses[-4:]), rel=1e-6)
    assert columns["grad/c51/trunk"][0] == pytest.approx(np.mean(norms[-2:]), rel=1e-6)
    assert columns["gem/g6_branch_indep/value"][0] == pytest.approx(np.mean(values[-2:]), rel=1e-6)


@pytest.mark.parametrize("updates", range(1, 9))
def test_diagnostic_updates_are_spread_and_the_last_is_one(market_file, updates):
    for wanted in range(1, updates + 1):
        spec = tiny_spec(market_file, updates_per_epoch=updates, diagnostics_per_epoch=wanted)
        marks = []
        step = lambda pack, diagnose, marks=marks: marks.append(diagnose)
        told = list(loop.train_epoch(type("Spec", (), {"spec": spec}), step))
        assert told == list(enumerate(marks, 1))
        assert len(marks) == updates
        assert sum(marks) == wanted
        assert marks[-1]


def test_the_reporter_can_stop_it(market_file):
    seen = run(tiny_spec(market_file), stop_after=1)
    assert [record.epoch for record in seen.records] == [0, 1]
    assert seen.summary is None


def test_action_shares(seen):
    for record in seen.records:
        columns = record.columns
        sides = sum(columns[f"act/{name}"] for name in ("short", "flat", "long"))
        sizes = sum(columns[f"act/{name}"] for name in ("third", "two_thirds", "full"))
        np.testing.assert_allclose(sides, 1.0, atol=1e-6)
        np.testing.assert_allclose(sizes, columns["act/flat"] < 1.0, atol=1e-6)


def test_learning_health_follows_the_peak(seen):
    peak = np.zeros(5, np.float32)
    for record in seen.records[1:]:
        gap = record.columns["q_gap"]
        peak = np.maximum(np.float32(0.99) * peak, gap)
        np.testing.assert_allclose(record.columns["signal/q_gap_peak"], peak, rtol=1e-6)
        np.testing.assert_allclose(record.columns["signal/q_gap_floor"], 0.5 * peak, rtol=1e-6)
        np.testing.assert_allclose(record.columns["signal/learning_health"], gap / peak, rtol=1e-6)


def test_epsilon_falls_linearly_then_stays(seen):
    values = [record.columns["signal/epsilon"][0] for record in seen.records]
    expected = [1.0, 1.0 - 0.95 * 3 / 10, 1.0 - 0.95 * 7 / 10, 0.05]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
