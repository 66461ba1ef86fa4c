"""When what is added: the order of a step, and three faults of an older trainer that ours cannot have.

Its distillation was added at the epoch boundary and wiped by the next step's clearing (Bug 1), then with a coefficient
that a captured graph had baked in at 0 (Bug 2), then never, because its gate saw an average that was stuck (Bug 3).
"""

import ast
from pathlib import Path

import pytest
import torch
from tiny_trial import started, tiny_spec

import numba_kernels as nk
import trainer
from trainer import aux_ops, snapshots, sources, step
from trainer.config import ArmConfig, GemConfig
from trainer.signals import LEARNING_HEALTH
from trainer.step import iterate, update, walk

USER_GEM = """
from trainer.gems import Gem

class Mine(Gem):
    name = "mine"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.square().sum(-1)
"""


def pulling(pack, health=0.0):
    """Arm the distillation with a teacher that is not the student."""
    pack.signals["distill_armed"].fill_(1.0)
    pack.signals["learning_health"].fill_(health)
    pack.snapshots.best.copy_(0.5 * pack.online.params)


def logged(monkeypatch, calls):
    """Note the calls of the parts of a step, in order."""

    def note(module, name, label=None):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: (calls.append(label or name), original(*a, **k))[1])

    for module, name in ((step, "forward_batch"), (step, "c51"), (step, "cql"), (step, "distill"), (step, "adam")):
        note(module, name)
    for name in sources.BACKWARD:
        original = sources.BACKWARD[name]
        monkeypatch.setitem(step.BACKWARD, name, lambda *a, f=original, n=name: (calls.append(n), f(*a))[1])
    write_row = aux_ops.write_row
    monkeypatch.setattr(aux_ops, "write_row", lambda p, gem, *a: (calls.append(gem.name), write_row(p, gem, *a))[1])


def test_order_of_a_step(market_file, tmp_path, monkeypatch):
    """Forward, losses, then CQL, distillation, G12, G6, G10, a user's gem, then Adam, whatever order is configured."""
    file = tmp_path / "mine.py"
    file.write_text(USER_GEM)
    names = [f"{file}:Mine", "g10_temporal", "g6_branch_indep", "g12_predictive"]
    arm = ArmConfig(name="base", gems={name: GemConfig(mode="wired") for name in names})
    pack, calls = started(tiny_spec(market_file, arms=(arm,))), []
    logged(monkeypatch, calls)
    with torch.no_grad():
        update(pack, diagnose=False)
    forward = ["forward_batch", "c51", "iqn", "ens", "rec"]
    aux = ["cql", "distill", "g12_predictive", "g6_branch_indep", "g10_temporal", "mine"]
    assert calls == [*forward, *aux, "adam"]


def test_the_gradient_begins_anew_in_every_step(market_file):
    """Bug 1: what is added between two steps, at an epoch boundary say, is gone before anyone sees it."""
    packs = [started(tiny_spec(market_file, ["base 0 0"])) for _ in range(2)]
    with torch.no_grad():
        for _ in range(3):
            packs[0].gradient.add_(1e3)  # where the older trainer added its distillation
            for pack in packs:
                iterate(pack, diagnose=False)
    assert torch.equal(packs[0].online.params, packs[1].online.params)


def test_distillation_acts_within_the_step(market_file):
    """The same pull, added where it belongs, reaches the optimiser: the gradient differs by alpha (theta - best)."""
    packs = [started(tiny_spec(market_file, ["base 0 0"])) for _ in range(2)]
    with torch.no_grad():
        pulling(packs[0])
        before = packs[0].online.params.clone()
        for pack in packs:
            update(pack, diagnose=False)
    alpha = packs[0].signals["distill_alpha"].item()
    assert alpha == pytest.approx(packs[0].spec.trainer.distillation.alpha_max)
    added = packs[0].gradient - packs[1].gradient
    torch.testing.assert_close(added, alpha * 0.5 * before, rtol=1e-3, atol=1e-6)
    assert not torch.equal(packs[0].online.params, packs[1].online.params)


def test_alpha_follows_slot_12_between_steps(market_file):
    """Bug 2: nothing of alpha is decided on the host. Only the table is written between these steps."""
    pack, seen = started(tiny_spec(market_file, ["base 0 0", "base 1 0"])), []
    pulling(pack)
    with torch.no_grad():
        for health in (1.0, 0.25, 0.0, 0.45, 0.9):
            pack.signals.table[:, LEARNING_HEALTH] = torch.tensor([health, 0.0])
            iterate(pack, diagnose=False)
            seen.append(pack.signals["distill_alpha"].tolist())
    largest, limit = pack.spec.trainer.distillation.alpha_max, pack.spec.trainer.distillation.health_on
    expected = [largest * min(max((limit - health) / limit, 0.0), 1.0) for health in (1.0, 0.25, 0.0, 0.45, 0.9)]
    assert [first for first, _ in seen] == pytest.approx(expected, abs=1e-7)
    assert [second for _, second in seen] == pytest.approx([largest] * 5)


def test_the_pull_is_launched_on_every_step_with_tensors_only(market_file, monkeypatch):
    """Also while health is high: a graph captured then must hold the launch, and all it is given must be memory."""
    pack, calls, original = started(tiny_spec(market_file)), [], nk.distill_saxpy
    monkeypatch.setattr(nk, "distill_saxpy", lambda *a: (calls.append(a), original(*a))[1])
    with torch.no_grad():
        for _ in range(4):
            iterate(pack, diagnose=False)
    assert len(calls) == 4
    for call in calls:
        *tensors, count = call
        assert all(isinstance(argument, torch.Tensor) for argument in tensors)
        assert count == pack.used  # the length of a row, fixed with the layout
        assert call[2].data_ptr() == pack.snapshots.best.data_ptr()
        assert call[3].data_ptr() == pack.signals.table.data_ptr()


def test_the_gate_opens_on_the_raw_gap_though_an_average_is_stuck(market_file):
    """Bug 3: with the older gate, fed an average that stays 0, nothing is ever accepted; ours does not look at it."""
    pack = started(tiny_spec(market_file, ["base 0 0"]))
    signals = pack.signals
    signals["q_gap"].fill_(0.4)
    signals["q_gap_floor"].fill_(0.2)
    for branch in ("direction", "magnitude"):
        signals[f"q_gap_ema_{branch}"].zero_()
    older = (signals["q_gap_ema_direction"] > 0) & (signals["q_gap_ema_direction"] >= signals["q_gap_floor"])
    assert not older.any()
    assert snapshots.accepts(signals, pack.counters).all()
    source = ast.unparse(ast.parse(Path(snapshots.__file__).read_text()))
    assert "q_gap_ema" not in source


def test_no_other_module_writes_the_gradient():
    """`pack.gradient` appears in the step and its aux operations only, besides the pack that makes and resets it."""
    root = Path(trainer.__file__).parent
    users = set()
    for file in root.rglob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text()))
        if any(isinstance(node, ast.Attribute) and node.attr == "gradient" for node in nodes):
            users.add(str(file.relative_to(root)))
    others = {"network.py", "pack.py"}  # SpectralNorm.gradient, a method; reset_pack, between two trials
    assert users - others == {"step.py", "aux_ops.py"}, users


def test_schedules_are_written_on_the_device_before_they_are_read(market_file):
    """Epsilon, beta, the CQL coefficient and the ramp follow the update count without a host number."""
    pack = started(tiny_spec(market_file, ["base 0 0"], epsilon_decay_updates=4, priority_beta_updates=2))
    pack.signals["iqn_warmup_updates"].fill_(1.0)
    pack.signals["iqn_ramp_updates"].fill_(2.0)
    seen = []
    with torch.no_grad():
        for _ in range(5):
            walk(pack)
            update(pack, diagnose=False)
            seen.append([pack.signals[n].item() for n in ("epsilon", "priority_beta", "iqn_readiness")])
    expected = [[1.0, 0.4, 0.0], [0.7625, 0.7, 0.0], [0.525, 1.0, 0.5], [0.2875, 1.0, 1.0], [0.05, 1.0, 1.0]]
    assert [value for row in seen for value in row] == pytest.approx([value for row in expected for value in row])
