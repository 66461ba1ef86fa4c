"""The analytic gradient of each built-in gem against autograd of its own `forward`."""

from dataclasses import fields, replace

import pytest
import torch

from trainer.config import BUILTIN_GEMS
from trainer.gems.contract import Gem, GemContext
from trainer.gems.registry import load_gem

MEMBERS, BATCH, UNITS, ATOMS = 3, 12, 6, 5


def context(dtype=torch.float32, seed=0, **changes):
    """Random activations of about the size that training shows; some pairs do not continue, one unit is dead."""
    g = torch.Generator().manual_seed(seed)
    sizes = {"q": (3,), "logits": (3, ATOMS), "hidden": (UNITS,), "trunk": (UNITS,), "prediction": (UNITS,)}
    tensors = {}
    for field in fields(GemContext):
        kind = field.name.rpartition("_")[2]
        if kind in sizes:
            tensors[field.name] = torch.randn(MEMBERS, BATCH, *sizes[kind], generator=g, dtype=torch.float64)
            if kind in ("hidden", "trunk"):
                tensors[field.name] = tensors[field.name].relu()
    tensors["direction_hidden"][..., 2] = 0.0
    tensors |= {"continues": (torch.rand(MEMBERS, BATCH, generator=g) > 0.3).double()}
    tensors |= {"returns": torch.zeros(MEMBERS, BATCH), "temperature": torch.tensor([0.1, 0.5, 2.0])}
    tensors |= {name: torch.randn(MEMBERS, BATCH, 32, generator=g) for name in ("observation", "next_observation")}
    cast = {name: tensor.to(dtype) for name, tensor in (tensors | changes).items()}
    cast |= {name: torch.randint(3, (MEMBERS, BATCH), generator=g) for name in ("direction", "magnitude")}
    return GemContext(**cast, active=torch.ones(MEMBERS, dtype=torch.int32))


@pytest.mark.parametrize("name", BUILTIN_GEMS)
def test_measure_equals_autograd_of_forward(name):
    gem, exact = load_gem(name), Gem.measure(load_gem(name), context(torch.float64))
    got = gem.measure(context())
    torch.testing.assert_close(got.value.double(), exact.value, rtol=2e-5, atol=1e-6)
    assert got.gradients.keys() == exact.gradients.keys() == set(gem.inputs)
    for entry, gradient in got.gradients.items():
        scale = exact.gradients[entry].abs().max().item()
        assert scale > 0
        torch.testing.assert_close(gradient.double(), exact.gradients[entry], rtol=1e-3, atol=1e-5 * scale)


@pytest.mark.parametrize("name", BUILTIN_GEMS)
def test_a_gem_that_is_off_leaves_its_member_alone(name):
    ctx = replace(context(), active=torch.tensor([1, 0, 1], dtype=torch.int32))
    got, whole = load_gem(name).measure(ctx), load_gem(name).measure(context())
    for entry, gradient in got.gradients.items():
        assert gradient[1].count_nonzero() == 0
        assert torch.equal(gradient[[0, 2]], whole.gradients[entry][[0, 2]])
    assert torch.equal(got.value[[0, 2]], whole.value[[0, 2]])


@pytest.mark.parametrize("name", ["g10_temporal", "g12_predictive"])
def test_pairs_across_an_end_do_not_count(name):
    ctx = context(continues=torch.zeros(MEMBERS, BATCH))
    found = load_gem(name).measure(ctx)
    assert found.value.tolist() == [0.0] * MEMBERS
    assert all(gradient.count_nonzero() == 0 for gradient in found.gradients.values())
    ctx = context()
    ended = (ctx.continues == 0)[..., None]
    for gradient in load_gem(name).measure(ctx).gradients.values():
        assert gradient.masked_select(ended).count_nonzero() == 0


def test_a_dead_unit_gets_no_gradient_from_branch_independence():
    found = load_gem("g6_branch_indep").measure(context())
    assert found.gradients["direction_hidden"][..., 2].count_nonzero() == 0
    assert torch.isfinite(found.gradients["direction_hidden"]).all()


def test_literal_values():
    """Two equal columns: correlation 1. Opposite vectors: distance 4. Equal policies: divergence 0."""
    column = torch.randn(MEMBERS, BATCH, 1, generator=torch.Generator().manual_seed(1))
    ctx = replace(context(), direction_hidden=column, magnitude_hidden=3.0 * column - 1.0)
    torch.testing.assert_close(load_gem("g6_branch_indep").measure(ctx).value, torch.ones(MEMBERS), rtol=1e-5, atol=0)
    ctx = context()
    ctx = replace(ctx, prediction=-2.0 * ctx.next_trunk, continues=torch.ones(MEMBERS, BATCH))
    nonzero = (ctx.next_trunk.abs().sum(-1) > 0).all(1)
    value = load_gem("g12_predictive").measure(ctx).value[nonzero]
    torch.testing.assert_close(value, torch.full_like(value, 4.0), rtol=1e-5, atol=0)
    ctx = replace(context(), next_direction_q=context().direction_q, next_magnitude_q=context().magnitude_q)
    assert load_gem("g10_temporal").measure(ctx).value.tolist() == [0.0] * MEMBERS
