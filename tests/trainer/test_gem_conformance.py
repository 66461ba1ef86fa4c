"""The conformance suite: our gems and a sound gem of a user pass all of it; each check has a gem that fails only it."""

from dataclasses import replace

import pytest
import torch

from sweep.gem_check import check
from trainer.config import BUILTIN_GEMS
from trainer.gems import Gem, Measure
from trainer.gems.conformance import CHECKS, Finding, UnreachedInput, check_gem
from trainer.gems.registry import load_gem
from trainer.gems.sample_contexts import Shape, hostile_contexts, members_of, random_context, tensors_of


class Sound(Gem):
    """A user's gem: mean square of the trunk over the pairs that continue."""

    name = "sound"
    inputs = ("trunk",)

    def forward(self, ctx):
        weight = ctx.continues
        return (ctx.trunk.square().mean(-1) * weight).sum(1) / weight.sum(1).clamp_min(1.0)


class Analytic(Sound):
    """The same with a `measure` of its own."""

    def measure(self, ctx):
        found = super().measure(ctx)
        off = ctx.active[:, None, None] == 0
        return Measure(found.value, {"trunk": found.gradients["trunk"].masked_fill(off, 0.0)})


class Writes(Sound):
    def forward(self, ctx):
        ctx.returns.clamp_(-1e9, 1e9)  # the same numbers, but a later gem could not rely on it
        return super().forward(ctx)


class WritesPastAutograd(Analytic):
    def measure(self, ctx):
        ctx.returns.numpy()[:] = 0.0  # a write that torch does not count
        return super().measure(ctx)


class TooLong(Sound):
    def forward(self, ctx):
        return ctx.trunk.square()


class OtherDtype(Analytic):
    def measure(self, ctx):
        found = super().measure(ctx)
        return Measure(found.value.double(), found.gradients)


class SinglePrecision(Sound):
    def forward(self, ctx):
        return super().forward(replace(ctx, trunk=ctx.trunk.float(), continues=ctx.continues.float()))


class OtherGradients(Analytic):
    def measure(self, ctx):
        found = super().measure(ctx)
        return Measure(found.value, {**found.gradients, "value_hidden": torch.zeros_like(ctx.value_hidden)})


class Raises(Sound):
    def forward(self, ctx):
        return ctx.trunk[:, 3]


class Remembers(Analytic):
    last = None

    def measure(self, ctx):
        found, again = super().measure(ctx), ctx.returns is self.last
        self.last = ctx.returns
        return Measure(found.value * 2 if again else found.value, found.gradients)


class Mixes(Sound):
    """The right shape, and no number of one member moves unless another's is NaN."""

    def forward(self, ctx):
        value = super().forward(ctx)
        return value * (1.0 + 0.0 * value.sum())


class DividesByAll(Sound):
    def forward(self, ctx):
        return ctx.trunk.square().sum((1, 2)) / ctx.trunk.numel()


class WrongMeasure(Analytic):
    def measure(self, ctx):
        found = super().measure(ctx)
        return Measure(found.value, {name: 1.01 * gradient for name, gradient in found.gradients.items()})


class Detached(Sound):
    def forward(self, ctx):
        return super().forward(ctx) - 0.5 * super().forward(ctx).detach()


class RootOfZero(Sound):
    def forward(self, ctx):
        return ctx.trunk.square().sum(-1).sqrt()


class DividesByPairs(Sound):
    def forward(self, ctx):
        return (ctx.trunk.square().mean(-1) * ctx.continues).sum(1) / ctx.continues.sum(1)


class AlwaysOn(Sound):
    def measure(self, ctx):
        return super().measure(ctx)


class NamesTooMuch(Sound):
    inputs = ("trunk", "value_hidden")


BROKEN = [
    (Writes, "read_only", "wrote to ctx.returns"),
    (WritesPastAutograd, "read_only", "wrote to ctx.returns"),
    (TooLong, "shape", "forward(ctx) gave (1, 3, 2)"),
    (OtherDtype, "shape", "value is (1,) torch.float64, not (1,) torch.float32"),
    (SinglePrecision, "shape", "take the dtype from the tensors of ctx"),
    (OtherGradients, "shape", "gradients for ['trunk', 'value_hidden'], but inputs names ['trunk']"),
    (Raises, "shape", "IndexError: index 3"),
    (Remembers, "deterministic", "the value differs"),
    (Mixes, "members", "the value of one member changes when the others' tensors are NaN"),
    (DividesByAll, "packs", "the value of a member alone differs"),
    (WrongMeasure, "autograd", "gradient of trunk of measure(ctx) is off by"),
    (Detached, "gradcheck", "the gradient of trunk is not the slope of forward(ctx)"),
    (RootOfZero, "finite", "the gradient of trunk is not finite with all activations 0"),
    (DividesByPairs, "ends", "not finite with no pair that continues"),
    (AlwaysOn, "off", "leaves a gradient of trunk where ctx.active is 0"),
]


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("gem", [*BUILTIN_GEMS, Sound, Analytic])
def test_sound_gems_conform(gem, name):
    CHECKS[name](load_gem(gem) if isinstance(gem, str) else gem())


@pytest.mark.parametrize(("gem", "name", "message"), BROKEN, ids=[gem.__name__ for gem, *_ in BROKEN])
def test_each_check_finds_the_gem_that_breaks_it_and_no_other_check_does(gem, name, message):
    failed = {finding.check: finding.message for finding in check_gem(gem()) if not finding.ok}
    assert list(failed) == [name]
    assert message in failed[name]


def test_every_check_has_a_gem_that_breaks_it():
    assert {name for _, name, _ in BROKEN} | {"inputs"} == set(CHECKS)


def test_an_input_without_a_gradient_is_told_and_passes():
    with pytest.warns(UnreachedInput, match="inputs names value_hidden, but no gradient arrives there"):
        CHECKS["inputs"](NamesTooMuch())
    findings = check_gem(NamesTooMuch())
    assert findings[-1] == Finding("inputs", True, "inputs names value_hidden, but no gradient arrives there")
    assert all(finding.ok for finding in findings)


def test_a_gem_that_mixes_members_is_found_although_its_shape_is_right():
    class Centred(Sound):
        def forward(self, ctx):
            value = super().forward(ctx)
            return value - value.mean(0)

    failed = {finding.check: finding.message for finding in check_gem(Centred()) if not finding.ok}
    assert failed.keys() == {"members", "packs"}
    assert "when the others' tensors are other numbers: axis 0 is the member" in failed["members"]


def test_randomness_is_found():
    class Noisy(Sound):
        def forward(self, ctx):
            return super().forward(ctx) * torch.rand(())

    assert not {finding.check: finding.ok for finding in check_gem(Noisy())}["deterministic"]


def test_sample_contexts_are_what_their_names_say():
    ctx = random_context(Shape(4, 9, 6, 8, 11))
    assert all(torch.equal(x, tensors_of(random_context(Shape(4, 9, 6, 8, 11)))[n]) for n, x in tensors_of(ctx).items())
    assert torch.equal(members_of(ctx, [2]).direction_q[0], ctx.direction_q[2])
    assert ctx.trunk.shape == (4, 9, 6)
    assert ctx.magnitude_logits.shape == (4, 9, 3, 11)
    assert ctx.next_direction_hidden.shape == (4, 9, 8)
    hostile = hostile_contexts()
    assert not hostile["all activations 0"].prediction.any()
    assert (hostile["dead units"].trunk[..., 0] == 0).all()
    assert (hostile["dead units"].next_trunk[:, 1] == 0).all()
    assert (hostile["one-hot activations"].direction_logits.sum(-1) == 1).all()
    assert hostile["activations of 1e4"].direction_q.abs().max() > 1e4
    assert torch.equal(hostile["two equal bars"].next_magnitude_q, hostile["two equal bars"].magnitude_q)
    assert all(torch.isfinite(x).all() for found in hostile.values() for x in tensors_of(found).values())


def test_the_verb_names_what_fails_and_what_was_not_run(tmp_path):
    path = tmp_path / "mine.py"
    text = "from trainer.gems import Gem\n\n\nclass Mine(Gem):\n    name, inputs = 'mine', ('trunk',)\n\n"
    path.write_text(f"{text}    def forward(self, ctx):\n        return ctx.trunk.sum(-1)\n")
    lines, failed = check(f"{path}:Mine")
    assert (failed, lines[-1]) == ([], f"mine passes all {len(CHECKS)} checks")
    path.write_text(f"{text}    def forward(self, ctx):\n        return ctx.trunk\n")
    lines, failed = check(f"{path}:Mine")
    assert failed == ["shape"]
    assert any(line.split()[:2] == ["FAIL", "shape"] for line in lines)
    assert lines[-2].startswith("not run, since they need what failed: deterministic, members")
    assert lines[-1] == "mine fails shape"
