"""A user's gem from a file: measured, recorded and wired like ours, without touching a file of ours."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_trial import BASE, OFF, rows_differ, run, started, tiny_spec

from trainer.aux_ops import measure_gems
from trainer.config import ArmConfig, GemConfig
from trainer.gems.registry import DATA, GemError, load_gem, load_gems
from trainer.market import target_of
from trainer.params import SLICES, TARGETS
from trainer.sources import forward_batch

ZERO = """
from trainer.gems import Gem

class Zero(Gem):
    name = "zero"
    inputs = ("trunk",)

    def forward(self, ctx):
        return 0.0 * ctx.trunk.sum(-1)

class Constant(Gem):
    name = "constant"
    inputs = ("direction_q",)

    def forward(self, ctx):
        return ctx.returns.detach() * 0 + 2.5
"""
COPIES = """
from trainer.gems import Gem
from trainer.gems.branch_independence import BranchIndependence
from trainer.gems.predictive_coding import PredictiveCoding
from trainer.gems.temporal_consistency import TemporalConsistency


class Independence(BranchIndependence):
    name = "copy_g6"
    measure = Gem.measure

class Temporal(TemporalConsistency):
    name = "copy_g10"
    measure = Gem.measure

class Predictive(PredictiveCoding):
    name = "copy_g12"
    measure = Gem.measure
"""
EVERYWHERE = """
from trainer.gems import Gem

class Everywhere(Gem):
    name = "everywhere"
    inputs = ("trunk", "next_trunk", "value_hidden", "next_direction_hidden", "magnitude_logits", "prediction")

    def forward(self, ctx):
        return sum(getattr(ctx, name).flatten(2).square().mean(2) for name in self.inputs)
"""
BROKEN = """
from trainer.gems import Gem

class Broken(Gem):
    name = "broken"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.sum(-1) * SIZE
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gems")
    for name, text in (("zero.py", ZERO), ("copies.py", COPIES), ("everywhere.py", EVERYWHERE)):
        (path / name).write_text(text)
    return path


def arm(name, folder, mode="probe", **gems):
    """An arm of gems given as class=file."""
    return ArmConfig(name=name, gems={f"{folder / file}.py:{cls}": GemConfig(mode=mode) for cls, file in gems.items()})


def test_a_constant_zero_gem_has_value_and_gradient_zero(market_file, folder):
    probing = arm("base", folder, Zero="zero", Constant="zero")
    seen = run(tiny_spec(market_file, ["base 0 0", "off 0 0"], arms=(probing, OFF)))
    for record in seen.records[1:]:
        columns = record.columns
        assert columns["gem/zero/value"][0] == columns["gem/zero/size"][0] == columns["gem/zero/size/trunk"][0] == 0.0
        assert columns["gem/constant/value"][0] == 2.5
        assert columns["gem/constant/size"][0] == columns["gem/constant/size/direction"][0] == 0.0
        assert columns["purity/params_sha"][0] == columns["purity/params_sha"][1]
        assert "gem:zero=0 " in record.lines[0]
        assert "zero=off" in record.lines[1]


def test_a_wired_zero_gem_changes_no_bit(market_file, folder):
    wired = arm("wired", folder, mode="wired", Zero="zero", Constant="zero")
    seen = run(tiny_spec(market_file, ["wired 0 0", "off 0 0"], arms=(wired, OFF)))
    first, second = seen.records[-1].columns["purity/params_sha"]
    assert first == second


def test_autograd_copies_of_the_built_in_gems_give_their_numbers(market_file, folder):
    copies = arm("base", folder, Independence="copies", Temporal="copies", Predictive="copies")
    both = ArmConfig(name="base", gems=BASE.gems | copies.gems)
    columns = run(tiny_spec(market_file, ["base 0 0"], arms=(both,))).records[-1].columns
    pairs = {"copy_g6": "g6_branch_indep", "copy_g10": "g10_temporal", "copy_g12": "g12_predictive"}
    for copy, own in pairs.items():
        row = "pred" if own == "g12_predictive" else f"gem:{own}"
        np.testing.assert_allclose(columns[f"gem/{copy}/value"], columns[f"gem/{own}/value"], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(columns[f"gem/{copy}/size"], columns[f"gem/{own}/size"], rtol=2e-3)
        for part in SLICES:
            names = f"grad/gem:{copy}/{part}", f"grad/{row}/{part}"
            np.testing.assert_allclose(columns[names[0]], columns[names[1]], rtol=2e-3, atol=1e-6)


ONE_BAR_ON = """
from trainer.gems import Gem

class OneBarOn(Gem):
    name = "one_bar_on"
    inputs = ("trunk", "next_direction_q", "next_magnitude_hidden")

    def forward(self, ctx):
        return sum(getattr(ctx, name).square().mean(2) for name in self.inputs)
"""


def test_a_row_holds_one_update_where_only_the_next_bar_reaches_it(market_file, tmp_path):
    """The branches are reached at t + 1 alone: measured again on the same batch, nothing may pile up."""
    (tmp_path / "one_bar_on.py").write_text(ONE_BAR_ON)
    pack, rows = started(tiny_spec(market_file, arms=(arm("base", tmp_path, OneBarOn="one_bar_on"),))), []
    with torch.no_grad():
        done = forward_batch(pack)
        for _ in range(3):
            measure_gems(pack, list(pack.gems), done)
            rows.append(pack.row("gem:one_bar_on").clone())
    start, stop = pack.layout.slices["direction"]
    assert rows[0][:, start:stop].count_nonzero() > 0
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])


READS_DATA = """
from trainer.gems import Gem

class ReadsData(Gem):
    name = "reads_data"
    inputs = ("direction_q", "magnitude_q")

    def forward(self, ctx):
        taken = ctx.direction_q.gather(-1, ctx.direction[..., None])[..., 0]
        size = ctx.magnitude_q.gather(-1, ctx.magnitude[..., None])[..., 0]
        return (taken * ctx.observation[..., 0]).square() + (size * ctx.next_observation[..., 0]).square()
"""


def test_a_gem_may_read_what_the_network_saw_and_did_and_its_probe_changes_no_bit(market_file, tmp_path):
    (tmp_path / "reads_data.py").write_text(READS_DATA)
    probing = arm("base", tmp_path, ReadsData="reads_data")
    seen = run(tiny_spec(market_file, ["base 0 0", "off 0 0"], arms=(probing, OFF)))
    columns = seen.records[-1].columns
    assert columns["gem/reads_data/value"][0] > 0
    assert columns["purity/params_sha"][0] == columns["purity/params_sha"][1]


def test_what_it_reads_is_the_batch_at_both_bars(market_file, tmp_path):
    """Features of the rows, the exposure held before and after the action, and the action that joins the two."""
    (tmp_path / "reads_data.py").write_text(READS_DATA)
    pack, seen = started(tiny_spec(market_file, arms=(arm("base", tmp_path, ReadsData="reads_data"),))), []
    (gem,) = pack.gems
    gem.measure = lambda ctx: seen.append(ctx) or type(gem).measure(gem, ctx)
    with torch.no_grad():
        done = forward_batch(pack)
        measure_gems(pack, [gem], done)
    (ctx,), batch, width = seen, done.batch, pack.market.features.shape[1]
    assert ctx.observation.shape == (*batch.returns.shape, width + TARGETS)
    assert torch.equal(ctx.observation[..., :width], pack.market.features[batch.rows[:, 0]])
    assert torch.equal(ctx.next_observation[..., :width], pack.market.features[batch.next_row])
    assert torch.equal(ctx.observation[..., width:].argmax(-1), batch.targets[:, 0])
    assert torch.equal(ctx.next_observation[..., width:].argmax(-1), target_of(ctx.direction, ctx.magnitude))


def test_no_gradient_may_enter_what_the_network_did_not_compute(tmp_path):
    for name in sorted(DATA):
        (tmp_path / f"{name}.py").write_text(READS_DATA.replace('"direction_q", "magnitude_q"', f'"{name}",'))
        with pytest.raises(GemError, match="`inputs` must name tensors among"):
            load_gem(f"{tmp_path / name}.py:ReadsData")


def test_a_wired_user_gem_trains_and_reaches_what_it_names(market_file, folder):
    wired = arm("wired", folder, mode="wired", Everywhere="everywhere")
    seen = run(tiny_spec(market_file, ["wired 0 0", "off 0 0"], arms=(wired, OFF)))
    columns = seen.records[-1].columns
    assert columns["purity/params_sha"][0] != columns["purity/params_sha"][1]
    own = {"iqn", "ensemble", "reconstruction"}  # heads that no gem can enter
    for part in SLICES:
        norm = columns[f"grad/gem:everywhere/{part}"][0]
        assert np.isnan(norm) if part in own else norm > 0
    assert columns["status"] == ["ok", "ok"]


def test_it_does_not_disturb_its_neighbours(market_file, folder):
    """Beside a member with a user's gem, one without has the bits that it has alone."""
    wired = arm("wired", folder, mode="wired", Everywhere="everywhere")
    pair = run(tiny_spec(market_file, ["wired 0 0", "off 3 1"], arms=(wired, OFF)))
    alone = run(tiny_spec(market_file, ["off 3 1"], arms=(OFF,)))
    for a, b in zip(pair.records, alone.records, strict=True):
        common = {name: column for name, column in a.columns.items() if name in b.columns}
        a.columns = common
        assert rows_differ(a, 1, b, 0, ("clock/", "member")) == []


@pytest.mark.parametrize("size", ["float('nan')", "1e30"])
def test_a_broken_gradient_freezes_the_member_that_wired_it_and_no_other(market_file, tmp_path, size):
    """1e30: the gradient is finite, its norm is not."""
    (tmp_path / "broken.py").write_text(BROKEN.replace("SIZE", size))
    arms = (arm("wired", tmp_path, "wired", Broken="broken"), arm("base", tmp_path, Broken="broken"), OFF)
    columns = run(tiny_spec(market_file, ["wired 0 0", "base 0 0", "off 0 0"], arms=arms)).records[-1].columns
    assert columns["status"] == ["frozen", "ok", "ok"]
    assert columns["frozen_at"][0] == 0
    assert columns["purity/params_sha"][1] == columns["purity/params_sha"][2]


REFUSED = {
    "nothing": "give a built-in name",
    "missing.py:Gem": "there is no file",
    "no_such_module_here:Gem": "no_such_module_here",
    "{folder}/zero.py:Absent": "Absent",
    "{folder}/zero.py:Gem": "does not define forward",
    "pathlib:Path": "is not a class derived from",
}


@pytest.mark.parametrize("reference", REFUSED)
def test_what_cannot_be_used_is_refused_with_its_name(folder, reference):
    with pytest.raises(GemError, match=REFUSED[reference]):
        load_gem(reference.format(folder=folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('name = "Zero Gem"', "lower case"),
        ('inputs = ("weights",)', "inputs"),
        ("inputs = ()", "inputs"),
        (
            'inputs = ("trunk",); may_duplicate = ("noisynets",)',
            "may_duplicate` must name features among spectral_norm",
        ),
        ('inputs = ("trunk",); may_duplicate = "iqn"', "may_duplicate"),
    ],
)
def test_bad_declarations_are_refused(tmp_path, change, message):
    field = change.partition(" =")[0]
    text = "\n".join(f"    {change}" if line.strip().startswith(field) else line for line in ZERO.splitlines()[:9])
    path = Path(tmp_path / "bad.py")
    path.write_text(text)
    with pytest.raises(GemError, match=message):
        load_gem(f"{path}:Zero")


def test_two_gems_of_one_name_are_refused(folder):
    with pytest.raises(GemError, match="share a name"):
        load_gems((f"{folder}/zero.py:Zero", f"{folder}/zero.py:Zero"))


MISBEHAVING = """
from trainer.gems import Gem

class Writes(Gem):
    name = "writes"
    inputs = ("trunk",)

    def forward(self, ctx):
        ctx.next_trunk.add_(1.0)
        return ctx.trunk.sum(-1)

class Mixes(Gem):
    name = "mixes"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.mean()

class Needs(Gem):
    name = "needs"
    inputs = ("trunk",)

    def __init__(self, weight):
        self.weight = weight

    def forward(self, ctx):
        return ctx.trunk.sum(-1)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [("Writes", "wrote to a tensor of ctx"), ("Mixes", r"it must be a float tensor of shape"), ("Needs", "weight")],
)
def test_a_gem_that_would_spoil_other_numbers_is_refused(market_file, tmp_path, name, message):
    path = tmp_path / "misbehaving.py"
    path.write_text(MISBEHAVING)
    arm = ArmConfig(name="base", gems={f"{path}:{name}": GemConfig()})
    with pytest.raises(GemError, match=message):
        run(tiny_spec(market_file, ["base 0 0"], arms=(arm,)))
