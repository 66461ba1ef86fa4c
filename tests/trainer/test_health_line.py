"""HEALTH_DIAG: groups in order, three kinds of zero, numbers that are those of the record."""

import math
import re

import pytest
from tiny_trial import BASE, run, tiny_spec

from trainer.components import FIXED, NINE
from trainer.config import ArmConfig
from trainer.diagnostics import health_line, show

GROUPS = ["grad_split_bwd", "grad_split_aux", "grad_trunk", "gates", "gems", "act"]
LATE = {"iqn": {"warmup_updates": 8, "ramp_updates": 2}, "cql": {"anneal_updates": 2}}


def parse(line):
    """{group: {field: text}} of a line, in order."""
    groups = re.findall(r"(\w+) \[([^]]*)\]", line)
    return {name: dict(field.split("=") for field in inside.split()) for name, inside in groups if name != "watchdog"}


@pytest.fixture(scope="module")
def records(market_file):
    """Three epochs of four updates; the ramp opens with the ninth update, CQL is closed after the second."""
    base = tiny_spec(market_file).trainer
    changes = {name: getattr(base, name).model_copy(update=fields) for name, fields in LATE.items()}
    return run(tiny_spec(market_file, ["base 0 0", "off 0 0", "wired 7 1"], **changes)).records


@pytest.fixture(scope="module")
def record(records):
    return records[-1]


def test_one_line_a_member_with_the_groups_in_order(record):
    assert len(record.lines) == 3
    assert record.lines[2].startswith("HEALTH_DIAG epoch=3 arm=wired seed=7 fold=1 status=ok ")
    for line in record.lines:
        assert list(parse(line)) == GROUPS
        assert line.endswith(" watchdog [ok]")
        assert "\n" not in line


def test_the_nine_components_keep_their_order(record):
    found = parse(record.lines[0])
    assert [name for name in found["grad_trunk"] if name in NINE] == list(NINE)
    assert list(found["grad_trunk"])[9:] == ["gem:g6_branch_indep", "gem:g10_temporal"]
    assert list(found["grad_split_bwd"]) == ["iqn", "ens", "c51", "rec", "c51_bs"]
    assert list(found["grad_split_aux"])[:4] == ["cql", "distill", "pred", "cql_sx"]


def test_acceptance_of_the_first_seed(records):
    """Before the ramp iqn is gated; after it iqn and ens pull on the trunk and never touch a branch."""
    before, after = (parse(records[epoch].lines[0]) for epoch in (1, 3))
    assert before["grad_trunk"]["iqn"] == "gated:iqn_readiness"
    assert float(after["grad_trunk"]["iqn"]) > 0
    assert float(after["grad_trunk"]["ens"]) > 0
    assert float(after["grad_trunk"]["c51"]) > 0
    for name in ("iqn", "ens", "rec"):
        assert before["grad_split_bwd"][name] == after["grad_split_bwd"][name] == "-"
    assert after["grad_split_aux"]["pred"] == "-"


def test_a_closed_gate_is_named(records):
    early, late = (parse(records[epoch].lines[0])["grad_trunk"] for epoch in (1, 3))
    assert float(early["cql_sx"]) > 0
    assert late["cql_sx"] == "gated:cql_coefficient"
    assert float(late["cql"]) > 0  # raw, a diagnostic
    assert late["distill"] == "gated:distill_alpha"  # health is high
    assert parse(records[3].lines[0])["grad_split_aux"]["cql_sx"] == "gated:cql_coefficient"


def test_a_feature_that_is_off_is_gated_by_its_weight(market_file):
    arm = ArmConfig(name="bare", gems=BASE.gems, features_off=("iqn", "ensemble_kl", "reconstruction", "distillation"))
    found = parse(run(tiny_spec(market_file, ["bare 0 0"], arms=(arm,), epochs=1)).records[-1].lines[0])["grad_trunk"]
    assert found["iqn"] == "gated:iqn_weight"
    assert found["ens"] == "gated:ensemble_weight"
    assert found["rec"] == "gated:reconstruction_weight"
    assert found["distill"] == "gated:distill_alpha_max"


def test_gates_tell_the_state_of_recovery(record):
    gates = parse(record.lines[0])["gates"]
    wanted = "iqn_readiness distill alpha trigger health q_gap peak floor snap_epoch accepted budget clip"
    assert list(gates) == wanted.split()
    assert (gates["distill"], gates["trigger"], gates["alpha"]) == ("off", "off", "0")
    assert gates["snap_epoch"] == str(record.columns["counter/snapshot_epoch"][0])
    assert int(gates["accepted"]) == record.columns["counter/snapshots_accepted"][0] > 0


def test_numbers_are_those_of_the_record(record):
    columns = record.columns
    for row in range(3):
        found = parse(record.lines[row])
        assert found["grad_trunk"]["c51"] == f"{columns['grad/c51/trunk'][row]:.3e}"
        ratio = float(columns["grad/c51/magnitude"][row]) / float(columns["grad/c51/direction"][row])
        assert found["grad_split_bwd"]["c51"] == f"{ratio:.3e}"
        assert found["gates"]["q_gap"] == f"{columns['signal/q_gap'][row]:.3e}"
        assert found["act"]["flat"] == f"{columns['act/flat'][row]:.3f}"
    assert parse(record.lines[0])["gems"]["g10_temporal"] == f"{columns['gem/g10_temporal/value'][0]:.3e}"
    assert parse(record.lines[1])["gems"]["g10_temporal"] == "off"


def test_a_gem_that_is_off_is_gated(record):
    found = parse(record.lines[1])
    assert found["grad_trunk"]["gem:g10_temporal"] == "gated:off"
    assert found["grad_split_aux"]["gem:g10_temporal"] == "gated:off"
    assert found["grad_trunk"]["pred"] == "gated:off"


def test_three_digits_an_exact_zero_and_one_that_was_not_measured():
    assert show(0.0) == "0"
    assert show(-0.0) == "0"
    assert show(math.nan) == "n/a"
    assert show(123.456) == "1.235e+02"
    assert show(1e-30) == "1.000e-30"


def test_a_ratio_of_zeros_is_structural_and_a_zero_numerator_exact(record):
    columns = dict(record.columns)
    columns["grad/c51/magnitude"] = [0.0, 0.0, 3.0]
    columns["grad/c51/direction"] = [0.0, 2.0, 0.0]
    gems = [c for c in record_components(record) if c.name not in {f.name for f in FIXED}]
    texts = [parse(health_line(columns, row, gems))["grad_split_bwd"]["c51"] for row in range(3)]
    assert texts == ["-", "0", "inf"]


def record_components(record):
    """The gems' lines of the registry, as a pack has them."""
    from trainer.gems.registry import load_gems
    from trainer.pack import gem_component

    names = [name.split("/")[1] for name in record.columns if name.startswith("gem/") and name.endswith("/mode")]
    return [gem_component(gem) for gem in load_gems(tuple(names))]


def test_before_the_first_update_gradients_are_unmeasured_and_unreachable_slices_still_structural(records):
    found = parse(records[0].lines[0])
    assert found["grad_trunk"]["c51"] == "n/a"
    assert found["grad_trunk"]["iqn"] == "n/a"
    assert found["grad_split_bwd"]["c51"] == "n/a"
    assert found["grad_split_aux"]["pred"] == "-"
    assert found["gates"]["q_gap"] == f"{records[0].columns['q_gap'][0]:.3e}"
