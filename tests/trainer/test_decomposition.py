"""The gradient decomposition: the rows add up to what is applied, and nothing lies outside the reported slices."""

import numpy as np
import pytest
import torch
from tiny_trial import BASE, OFF, gem_modes, run, started, tiny_spec

from trainer import step
from trainer.components import DERIVED, FIXED, NINE, cql_scale
from trainer.config import ArmConfig, GemConfig
from trainer.measurement import slice_norms, whole
from trainer.params import SLICES
from trainer.signals import Signals
from trainer.step import iterate

WIRED = ArmConfig(
    name="wired",
    gems=gem_modes(g10_temporal="wired", g6_branch_indep="wired")
    | {"g12_predictive": GemConfig(mode="wired", dose=0.5)},
)
MEMBERS = ["base 1 0", "wired 1 0", "off 2 1"]


def armed(pack, health=0.1):
    """Make the distillation pull: low health, and a teacher that is not the student."""
    pack.signals["distill_armed"].fill_(1.0)
    pack.signals["learning_health"].fill_(health)
    pack.snapshots.best.add_(0.01 * pack.online.params)


@pytest.fixture
def measured(market_file, monkeypatch):
    """(pack, gradient given to Adam, coefficients) of a diagnostic update in which every component is applied."""
    pack = started(tiny_spec(market_file, MEMBERS, arms=(BASE, OFF, WIRED)))
    caught, observed, adam, observe = [], [], step.adam, step.observe_rows
    monkeypatch.setattr(step, "adam", lambda *a: (caught.append(a[2].clone()), adam(*a)))
    monkeypatch.setattr(step, "observe_rows", lambda p, v, c: (observed.append(dict(c)), observe(p, v, c)))
    with torch.no_grad():
        pack.signals["iqn_warmup_updates"].fill_(0.0)
        pack.signals["iqn_ramp_updates"].fill_(2.0)
        for _ in range(4):
            iterate(pack, diagnose=False)
        armed(pack)
        pack.measurements.clear()
        iterate(pack, diagnose=True)
    return pack, caught[-1], observed[-1]


def test_applied_is_the_sum_of_its_components(measured):
    """iqn + ens + distill + rec + cql_sx + c51_bs + wired gems; c51, cql and probed gems are left out."""
    pack, applied, coefficients = measured
    expected = torch.zeros_like(applied, dtype=torch.float64)
    for name in ("iqn", "ens", "distill", "rec"):  # carry their weight in the row
        assert pack.row(name).count_nonzero() > 0
        expected += pack.row(name).double()
    for name, source in DERIVED.items():
        expected += coefficients[name].double()[:, None] * pack.row(source).double()
    for name in ("pred", "gem:g6_branch_indep", "gem:g10_temporal"):
        assert (coefficients[name] != 0).tolist() == [False, True, False]
        expected += coefficients[name].double()[:, None] * pack.row(name).double()
    scale = expected.abs().amax(1, keepdim=True)
    assert ((applied - expected).abs() <= 2e-6 * scale).all()


def test_recorded_norms_are_those_of_the_applied_parts(measured):
    """The matrix holds raw rows; c51_bs and cql_sx are their source times what it was applied with."""
    pack, applied, coefficients = measured
    sums, names = pack.measurements, [c.name for c in pack.components]
    norms = slice_norms(pack.rows, pack.starts)
    for name in names:
        row = norms[pack.row_names.index(DERIVED.get(name, name))]
        wanted = row * coefficients[name][:, None] if name in DERIVED else row
        assert torch.equal(sums.norms[names.index(name)], wanted), name
    torch.testing.assert_close(sums.applied, whole(slice_norms(applied[None], pack.starts)[0]), rtol=1e-6, atol=0)
    assert (sums.coefficients[names.index("distill")] > 0).all()


def test_every_tensor_lies_in_a_reported_slice_and_is_reached(measured):
    """A tensor outside every slice would leave the slices' squares short of the row's; an untrained one is zero."""
    pack, _, _ = measured
    norms = slice_norms(pack.rows, pack.starts).double()
    total = pack.rows.double().norm(dim=2)
    torch.testing.assert_close(norms.square().sum(2).sqrt(), total, rtol=1e-5, atol=1e-12)
    assert [pack.layout.slices[name] for name in SLICES] == sorted(pack.layout.slices.values())
    trained = [pack.row_names.index(name) for name in pack.row_names if name != "distill"]
    views = [pack.layout.views(pack.rows[index]) for index in trained]
    for tensor in pack.layout.tensors:
        assert any(view[tensor.name].count_nonzero() > 0 for view in views), tensor.name


def test_each_component_writes_its_reach_and_nothing_else(measured):
    pack, _, _ = measured
    norms = pack.measurements.norms
    for index, component in enumerate(pack.components):
        for place, part in enumerate(SLICES):
            assert (norms[index, 1, place] > 0) == (part in component.reach), (component.name, part)


def test_the_matrix_is_recorded_for_every_component(market_file):
    """Whatever a pack leaves out, a record has the same columns: norm and coefficient of each component and slice."""
    bare = ArmConfig(name="bare", features_off=("iqn", "ensemble_kl", "cql", "reconstruction", "distillation"))
    whole_record, bare_record = (
        run(tiny_spec(market_file, [member], arms=(BASE, bare), epochs=1)).records[-1].columns
        for member in ("base 0 0", "bare 0 0")
    )
    for component in FIXED:
        assert f"coefficient/{component.name}" in bare_record
        for part in SLICES:
            column = f"grad/{component.name}/{part}"
            missing = np.isnan(whole_record[column][0]), np.isnan(bare_record[column][0])
            assert missing == (part not in component.reach,) * 2
            if part in component.reach and component.feature:
                assert bare_record[column][0] == 0.0, column
    assert {c.name for c in FIXED} == set(NINE) - {"pred"}


def test_every_loss_has_value_coefficient_and_gradient_wired_or_not(market_file):
    columns = run(tiny_spec(market_file, ["base 0 0"], epochs=1)).records[-1].columns
    for loss in ("c51", "iqn", "ens", "cql", "rec"):
        assert columns[f"loss/{loss}"][0] > 0
        assert f"coefficient/{loss}" in columns
        assert f"grad/{loss}/trunk" in columns
    for gem, row in (("g12_predictive", "pred"), ("g6_branch_indep", "gem:g6_branch_indep")):
        assert columns[f"gem/{gem}/value"][0] > 0
        assert columns[f"coefficient/{row}"][0] == 0.0  # probed
        assert columns[f"grad/{row}/trunk"][0] > 0
    assert (columns["coefficient/iqn"][0], columns["coefficient/ens"][0]) == (2.0, 1.0)
    assert columns["coefficient/rec"][0] == pytest.approx(0.1)


def test_cql_is_scaled_to_its_budget():
    """coefficient x min(1, budget x |c51_bs| / |cql|): 0.5 x 2 = 1 limits the raw norm; closed is exactly 0."""
    signals = Signals(4, (), torch.device("cpu"))
    signals["cql_budget"].fill_(0.5)
    signals["cql_coefficient"].copy_(torch.tensor([0.1, 0.1, 0.0, 0.1]))
    scale = cql_scale(torch.tensor([0.5, 4.0, float("nan"), 0.0]), torch.full((4,), 2.0), signals)
    assert scale.tolist() == pytest.approx([0.1, 0.1 / 4.0, 0.0, 0.1])
    inf, nan = float("inf"), float("nan")
    norms, references = torch.tensor([inf, 4.0, inf, nan]), torch.tensor([2.0, nan, nan, 2.0])
    broken = cql_scale(norms, references, signals)
    assert broken.isnan().tolist() == [True, True, False, True]
    assert broken[2] == 0.0
