"""HEALTH_DIAG: groups in order, three kinds of zero, numbers that are those of the record."""

import math
import re

import pytest
import torch
from tiny_trial import run, tiny_spec

from trainer.components import NINE
from trainer.diagnostics import health_line, show
from trainer.health import observe_q_gap
from trainer.signals import Signals

GROUPS = ["grad_split_bwd", "grad_split_aux", "grad_trunk", "gates", "gems", "act"]


def parse(line):
    """{group: {field: text}} of a line, in order."""
    groups = re.findall(r"(\w+) \[([^]]*)\]", line)
    return {name: dict(field.split("=") for field in inside.split()) for name, inside in groups}


@pytest.fixture(scope="module")
def record(market_file):
    return run(tiny_spec(market_file, ["base 0 0", "off 0 0", "wired 7 1"])).records[-1]


def test_one_line_a_member_with_the_groups_in_order(record):
    assert len(record.lines) == 3
    assert record.lines[2].startswith("HEALTH_DIAG epoch=3 arm=wired seed=7 fold=1 status=ok ")
    for line in record.lines:
        assert list(parse(line)) == GROUPS
        assert "\n" not in line


def test_the_nine_components_keep_their_order_and_absent_ones_are_not_called_structural(record):
    found = parse(record.lines[0])
    assert [name for name in found["grad_trunk"] if name in NINE] == list(NINE)
    for name in ("iqn", "ens", "cql", "distill", "rec", "cql_sx"):
        assert found["grad_trunk"][name] == "n/a"
    assert list(found["grad_split_bwd"]) == ["iqn", "ens", "c51", "rec", "c51_bs"]
    assert list(found["grad_split_aux"])[:4] == ["cql", "distill", "pred", "cql_sx"]
    assert found["grad_split_aux"]["pred"] == "-"  # it reaches neither branch
    assert float(found["grad_trunk"]["pred"]) > 0


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


def test_a_gem_that_is_off_has_an_exact_zero_gradient(record):
    found = parse(record.lines[1])
    assert found["grad_trunk"]["gem:g10_temporal"] == "0"
    assert found["grad_split_aux"]["gem:g10_temporal"] == "-"  # 0 / 0


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
    reach = {"c51": ("trunk", "value", "direction", "magnitude")}
    texts = [parse(health_line(columns, row, reach))["grad_split_bwd"]["c51"] for row in range(3)]
    assert texts == ["-", "0", "inf"]


def test_peak_and_floor_vectors():
    """Peak 0.5 gives the floor 0.25, 0.05 gives 0.025; peak 1 after ten quiet epochs gives the floor 0.452191."""
    signals = Signals(3, (), torch.device("cpu"))
    observe_q_gap(signals, torch.tensor([0.5, 0.05, 1.0]))
    assert signals["q_gap_floor"].tolist() == pytest.approx([0.25, 0.025, 0.5])
    for _ in range(10):
        observe_q_gap(signals, torch.zeros(3))
    assert signals["q_gap_floor"][2].item() == pytest.approx(0.452191, abs=1e-6)
    assert signals["learning_health"].tolist() == [0.0] * 3


def test_before_the_first_update_gradients_are_unmeasured_and_unreachable_slices_still_structural(market_file):
    first = run(tiny_spec(market_file, ["base 0 0"])).records[0]
    found = parse(first.lines[0])
    assert found["grad_trunk"]["c51"] == "n/a"
    assert found["grad_split_bwd"]["c51"] == "n/a"
    assert found["grad_split_aux"]["pred"] == "-"
    assert found["gates"]["q_gap"] == f"{first.columns['q_gap'][0]:.3e}"


def test_a_q_gap_that_is_not_finite_is_no_health_and_keeps_the_peak():
    signals = Signals(2, (), torch.device("cpu"))
    observe_q_gap(signals, torch.tensor([1.0, 1.0]))
    observe_q_gap(signals, torch.tensor([0.5, math.nan]))
    assert signals["learning_health"].tolist() == pytest.approx([0.5 / 0.99, 0.0])
    assert signals["q_gap_peak"].tolist() == pytest.approx([0.99, 0.99])
