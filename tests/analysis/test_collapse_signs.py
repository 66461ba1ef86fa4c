"""Alarms of the watchdog by configuration and arm, signs of collapse, and the gates that HEALTH lines name."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from analysis.collapse import GAUGES, alarms, collapse_gauges
from analysis.health import ACTIONS, GATES, action_shares, health_lines
from analysis.matrix import late_norms
from trainer.components import FIXED


def experiment(**columns):
    """Two runs of one configuration over epochs 0 to 3; a column is one value, or one a run and epoch."""
    runs = [(seed, epoch) for seed in (0, 1) for epoch in range(4)]
    frame = pd.DataFrame(runs, columns=["seed", "epoch"])
    frame = frame.assign(trial="t-b0", config="t", arm="base", fold=0, status="ok")
    return SimpleNamespace(epochs=frame.assign(**columns))


def test_an_alarm_is_counted_by_runs_and_dated_by_its_first_epoch():
    texts = ["", "", "INERT distill", "INERT distill; STUCK value_high", "", "", "", "INERT distill"]
    found = alarms(experiment(watchdog=texts))
    assert [(alarm.text, alarm.runs, alarm.of, alarm.first) for alarm in found] == [
        ("INERT distill", 2, 2, 2),
        ("STUCK value_high", 1, 2, 3),
    ]
    assert found[0].line() == "watchdog: INERT distill in 2 of 2 runs of t, arm base, first at epoch 2"
    assert "exactly 0" in found[0].meaning


def test_no_alarm_without_one_and_none_from_older_records():
    assert alarms(experiment(watchdog="")) == []
    assert alarms(experiment()) == []


def test_gauges_are_those_of_the_last_epoch_and_a_narrow_support_is_called_out():
    mass = [0.9, 0.9, 0.9, 0.01, 0.9, 0.9, 0.9, 0.2]
    found = collapse_gauges(experiment(edge_mass=mass, **{"dormant/trunk": 0.25}))
    by_name = {gauge.name: gauge for gauge in found}
    edge = by_name[GAUGES["edge_mass"]]
    assert (edge.low, edge.high) == (0.01, 0.2)
    assert edge.remark == "above 0.05 in 1 of 2 runs: raise trainer.network.v_max"
    assert by_name[GAUGES["dormant/trunk"]].median == 0.25
    assert len(found) == 2
    assert collapse_gauges(experiment()) == []


def test_a_closed_gate_is_named_in_the_terminal():
    columns = {"grad/iqn/trunk": 0.0, "signal/iqn_weight": 1.0, "signal/iqn_readiness": 0.0}
    columns |= {"grad/ens/trunk": 0.0, "signal/ensemble_weight": 1.0, "grad/c51/trunk": 0.5}
    lines = " ".join(health_lines(experiment(**columns)))
    assert "iqn=gated:iqn_readiness" in lines
    assert "ens=0 " in lines
    assert "c51=0.5" in lines


def test_gates_are_those_of_the_registry():
    assert {c.name: c.gates for c in FIXED if c.gates} == GATES


def test_a_frozen_run_shows_no_gauge():
    frozen = experiment(edge_mass=np.arange(8.0), status=["ok"] * 4 + ["frozen"] * 4)
    assert collapse_gauges(frozen)[0].high == 3.0


def test_a_trial_with_fewer_epochs_counts_with_its_own_last_ones():
    rows = [("short", epoch, 8.0) for epoch in range(3)] + [("long", epoch, 2.0) for epoch in range(30)]
    frame = pd.DataFrame(rows, columns=["trial", "epoch", "norm"])
    cells = late_norms(frame.assign(component="c51", slice="trunk", zero="value"))
    assert cells.loc[("c51", "trunk"), "norm"] == 2.0  # 3 rows of the short trial and 5 of the long one
    cells = late_norms(frame[frame["epoch"] < 3].assign(component="c51", slice="trunk", zero="value"))
    assert cells.loc[("c51", "trunk"), "norm"] == 5.0  # three of each
    shares = action_shares(experiment(**{f"act/{name}": [0.0, 0.0, 0.0, 0.5] * 2 for name in ACTIONS}))
    assert shares == dict.fromkeys(ACTIONS, 0.5)
