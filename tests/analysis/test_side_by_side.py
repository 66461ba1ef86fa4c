"""HEALTH_DIAG of many trials side by side: medians of the base arm, and three zeros that stay apart."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console
from synthetic_experiment import TIMELINE, plan_of, specs, write_trial

import analysis
from analysis import side_by_side as module
from analysis.side_by_side import print_side_by_side, side_by_side
from trainer.components import NINE
from trainer.config import ArmConfig, GemConfig
from trainer.record import write_plan, write_timeline

GEMS = {"g6_branch_indep": 0.2, "g12_predictive": 0.05}


def special(table, epoch):
    """iqn behind its gate in trial 0, ens exactly zero, one gem that never reaches the trunk; three members."""
    count, trained = len(table["seed"]), epoch > 0
    number = 1.0 if trained else np.nan
    shut = table["trial"][0] == FIRST
    table["signal/iqn_readiness"] = np.full(count, 0.0 if shut else 1.0)
    table["grad/iqn/trunk"] = np.full(count, (0.0 if shut else 2.0) * number)
    table["grad/ens/trunk"] = np.zeros(count) * number
    table["grad/c51/trunk"] = np.array([1.0, 5.0, 30.0])[:count] * number
    table["grad/gem:mine/trunk"] = np.full(count, np.nan)
    table["grad/gem:mine/direction"] = np.full(count, number)
    table["signal/distill_alpha"] = np.array([0.0, 0.5, 0.5])[:count]
    table["signal/distill_health_on"], table["signal/distill_alpha_max"] = np.full(count, 0.3), np.full(count, 0.5)
    table["counter/snapshot_epoch"] = np.full(count, epoch - 1)
    return table


TRIALS = specs(configs=2, seeds=3, folds=1, epochs=3, gems=GEMS, off=False)
FIRST = TRIALS[0].key


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diag") / "diag"
    write_plan(folder, plan_of(TRIALS, name="diag"))
    write_timeline(folder, TIMELINE)
    write_trial(folder, TRIALS[0], GEMS, change=special)
    write_trial(folder, TRIALS[1], GEMS, change=special, stop_after=2, frozen=[(2, 0)])
    return analysis.load(folder)


def cells(experiment, group, name):
    field = next(field for field in side_by_side(experiment, group).fields if field.name == name)
    return {(cell.trial, cell.epoch): cell for cell in field.cells}


def text_of(found, width=80, every=1):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_side_by_side(found, console, every)
    return console.export_text()


def test_names_and_their_order_are_those_of_the_log(experiment):
    assert module.NINE == NINE
    names = [field.name for field in side_by_side(experiment, "grad_trunk").fields]
    assert names == [*NINE, "gem:g6_branch_indep", "gem:g10_temporal", "gem:mine"]
    assert [field.name for field in side_by_side(experiment, "gems").fields] == list(GEMS)


def test_the_three_zeros_stay_apart(experiment):
    iqn, ens, mine = (cells(experiment, "grad_trunk", name) for name in ("iqn", "ens", "gem:mine"))
    assert (iqn[FIRST, 1].mark, iqn[FIRST, 1].gate) == ("gated", "iqn_readiness")
    assert (iqn[TRIALS[1].key, 1].mark, iqn[TRIALS[1].key, 1].value) == ("value", 2.0)
    assert (ens[FIRST, 1].mark, ens[FIRST, 1].value) == ("exact", 0.0)
    assert {cell.mark for cell in mine.values()} == {"structural"}
    assert iqn[FIRST, 0].mark == ens[FIRST, 0].mark == "unmeasured"
    lines = text_of(side_by_side(experiment, "grad_trunk")).splitlines()
    rows = {name: lines[next(i for i, line in enumerate(lines) if line.split()[:1] == [name]) + 2] for name in NAMES}
    assert {name: row.split()[1] for name, row in rows.items()} == NAMES


NAMES = {"iqn": "gated", "ens": "0", "c51": "5.000e+00", "gem:mine": "-"}


def test_a_cell_is_the_median_of_healthy_base_members(experiment):
    c51 = cells(experiment, "grad_trunk", "c51")
    assert c51[FIRST, 3].value == 5.0
    assert c51[TRIALS[1].key, 1].value == 5.0
    assert c51[TRIALS[1].key, 2].value == 3.0  # the third member is frozen by then
    assert (TRIALS[1].key, 3) not in c51


def test_what_is_on_or_off_in_a_member_is_a_share_of_members(experiment):
    distill = cells(experiment, "gates", "distill")
    assert distill[FIRST, 1].value == pytest.approx(2 / 3)
    fields = {field.name: field for field in side_by_side(experiment, "gates").fields}
    assert [name for name, field in fields.items() if field.share] == ["distill", "trigger"]
    assert list(fields)[:3] == ["iqn_readiness", "distill", "alpha"]
    text = text_of(side_by_side(experiment, "gates"))
    assert "66.7" in text
    assert "off" in text


def test_a_norm_of_the_same_name_as_a_switch_is_no_share(experiment):
    distill = next(f for f in side_by_side(experiment, "grad_trunk").fields if f.name == "distill")
    assert not distill.share


def test_a_gem_that_the_base_arm_leaves_out(tmp_path):
    base = ArmConfig(name="base", gems={"g12_predictive": GemConfig(mode="off"), "g6_branch_indep": GemConfig()})
    trials = [spec.model_copy(update={"arms": (base,)}) for spec in TRIALS]
    write_plan(tmp_path, plan_of(trials))
    write_trial(tmp_path, trials[0], GEMS)
    experiment = analysis.load(tmp_path)
    for group, name in (("gems", "g12_predictive"), ("grad_trunk", "pred")):
        found = cells(experiment, group, name)[FIRST, 2]
        assert (found.mark, found.gate) == ("gated", "off")
    assert cells(experiment, "gems", "g6_branch_indep")[FIRST, 2].mark == "value"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_trials_go_into_blocks_that_fit(experiment, width):
    text = text_of(side_by_side(experiment, "gems"), width)
    tables = [line for line in text.splitlines() if not line.startswith("  ")]
    assert max(map(len, tables)) <= width
    assert all(text.count(spec.key) == 3 for spec in TRIALS)  # once with its settings, once a gem


def test_thinned_epochs_keep_the_last_of_each_trial(experiment):
    lines = text_of(side_by_side(experiment, "gems"), every=3).splitlines()
    shown = [line.split()[0] for line in lines if line.strip()[:1].isdigit() and "=" not in line]
    assert shown == ["0", "2", "3"] * 2


def test_nothing_recorded_and_unknown_groups(experiment, tmp_path):
    write_plan(tmp_path, plan_of(TRIALS))
    found = side_by_side(analysis.load(tmp_path), "gates")
    assert found.fields == ()
    assert "nothing has been recorded yet" in text_of(found)
    with pytest.raises(ValueError, match=r"group 'gate' is not one of gems, grad_trunk, gates"):
        side_by_side(experiment, "gate")
