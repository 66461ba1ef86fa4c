"""Checks that any gem can run: does it measure what it says, for each member alone, without a trace on the others?

In a test file of your own:

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_gem(check):
        CHECKS[check](MyGem())

or from the command line: `gemsweep check-gem my_gem.py:MyGem`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch.autograd import gradcheck as finite_differences
from torch.autograd.gradcheck import GradcheckError

from trainer.gems.contract import Gem, GemContext, member_values
from trainer.gems.requirements import (
    GRADIENT_TOLERANCE,
    VALUE_TOLERANCE,
    Nonconforming,
    differing,
    equal,
    measure,
    of_member,
    require_close,
    require_finite,
    require_like,
)
from trainer.gems.sample_contexts import SHAPES, Shape, hostile_contexts, members_of, random_context, tensors_of


class UnreachedInput(UserWarning):
    """A tensor that `inputs` names and that gets no gradient."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check; `message` is empty unless there is something to say."""

    check: str
    ok: bool
    message: str = ""


def read_only(gem: Gem) -> None:
    """Measuring writes to no tensor of ctx: the next gem reads the same ones."""
    for each in SHAPES:
        ctx, before = random_context(each), random_context(each)
        versions = {name: tensor._version for name, tensor in tensors_of(ctx).items()}
        with suppress(Exception):  # what else goes wrong is for the other checks to say
            measure(gem, ctx)
        written = [
            n for n, x in tensors_of(ctx).items() if x._version != versions[n] or not equal(x, getattr(before, n))
        ]
        if written:
            raise Nonconforming(f"wrote to ctx.{', ctx.'.join(written)}; work on a copy")


def shape(gem: Gem) -> None:
    """Value `[P]` and a gradient like each tensor in `inputs`, for every P, B and width; the dtype is that of ctx."""
    for each in SHAPES:
        ctx = random_context(each)
        found = measure(gem, ctx)
        require_like("value", found.value, ctx.temperature, each)
        if set(found.gradients) != set(gem.inputs):
            raise Nonconforming(f"gradients for {sorted(found.gradients)}, but inputs names {sorted(gem.inputs)}")
        for name, gradient in found.gradients.items():
            require_like(f"gradient of {name}", gradient, getattr(ctx, name), each)
        exact = random_context(each, torch.float64)
        require_like("value of forward(ctx) in float64", member_values(gem, exact), exact.temperature, each)


def deterministic(gem: Gem) -> None:
    """The same ctx gives the same bits, whatever torch's random generator holds."""
    for each in SHAPES:
        ctx, found = random_context(each), []
        for seed in (1, 2):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                found.append(measure(gem, ctx))
        if other := differing(found[0], found[1]):
            raise Nonconforming(f"measured twice on one batch, {other} differs: no randomness and no memory")


def members(gem: Gem) -> None:
    """Whatever happens to another member, NaN included, leaves every bit of this member's numbers."""
    for each in SHAPES[1:]:
        ctx = random_context(each)
        whole = measure(gem, ctx)
        for member in range(each.members):
            for what, changed in _changed_neighbours(ctx, member, each):
                if other := differing(of_member(whole, member), of_member(measure(gem, changed), member)):
                    raise Nonconforming(
                        f"{other} of one member changes when the others' tensors are {what}: axis 0 is the member, "
                        f"so reduce over the other axes only, and select with torch.where instead of multiplying by 0"
                    )


def packs(gem: Gem) -> None:
    """A member alone has the bits that it has in a pack of 3, at every place of it."""
    for each in (*(replace(s, members=3) for s in SHAPES), Shape(3, 33, 19, 17, 51)):
        ctx = random_context(each)
        for order in ([0, 1, 2], [2, 0, 1]):
            packed = measure(gem, members_of(ctx, order))
            for place, member in enumerate(order):
                alone = measure(gem, members_of(ctx, [member]))
                if other := differing(of_member(alone, 0), of_member(packed, place)):
                    raise Nonconforming(
                        f"{other} of a member alone differs from that in a pack of 3: do not divide by the number "
                        f"of members, and avoid sigmoid, silu and pow, whose last bit depends on the place in memory"
                    )


def autograd(gem: Gem) -> None:
    """`measure` in float32 is autograd of `forward` in float64, up to rounding."""
    for each in SHAPES:
        found, exact = measure(gem, random_context(each)), Gem.measure(gem, random_context(each, torch.float64))
        require_close("value", found.value, exact.value, VALUE_TOLERANCE)
        for name in gem.inputs:
            require_close(f"gradient of {name}", found.gradients[name], exact.gradients[name], GRADIENT_TOLERANCE)


def gradcheck(gem: Gem) -> None:
    """Autograd of `forward` is the slope that finite differences find, for each tensor in `inputs`."""
    ctx = random_context(Shape(2, 3, 2, 3, 2), torch.float64)
    for name in gem.inputs:
        start = getattr(ctx, name).clone().requires_grad_()

        def slope_of(x: torch.Tensor, name: str = name) -> torch.Tensor:
            return member_values(gem, replace(ctx, **{name: x})) + 0.0 * x.sum()  # also where x is not used

        try:
            finite_differences(slope_of, (start,), atol=1e-5, rtol=1e-3)
        except GradcheckError:
            raise Nonconforming(
                f"the gradient of {name} is not the slope of forward(ctx): a custom backward is wrong, or a detach() "
                f"hides a part of the path; a tensor that must get no gradient does not belong in inputs"
            ) from None


def finite(gem: Gem) -> None:
    """Zeros, equal samples, dead units, one-hot rows and activations of 1e4 give finite numbers."""
    for what, ctx in hostile_contexts().items():
        require_finite(gem, ctx, what)


def ends(gem: Gem) -> None:
    """A batch in which no pair of bars continues gives finite numbers."""
    for each in SHAPES:
        ctx = random_context(each)
        require_finite(gem, replace(ctx, continues=torch.zeros_like(ctx.continues)), "no pair that continues")


def off(gem: Gem) -> None:
    """A gem with a `measure` of its own leaves zeros in the gradients of members whose `active` is 0."""
    if type(gem).measure is Gem.measure:
        return  # the trainer clears what autograd gives for them
    for each in SHAPES:
        active = torch.arange(each.members, dtype=torch.int32) % 2
        found = measure(gem, replace(random_context(each), active=active))
        filled = [name for name, gradient in found.gradients.items() if gradient[active == 0].count_nonzero()]
        if filled:
            raise Nonconforming(f"measure(ctx) leaves a gradient of {', '.join(filled)} where ctx.active is 0")


def inputs(gem: Gem) -> None:
    """Warns of a tensor in `inputs` whose gradient is 0 everywhere: it costs a backward and changes nothing."""
    found = [measure(gem, random_context(each, seed=1)).gradients for each in SHAPES]
    silent = [name for name in gem.inputs if not any(gradients[name].count_nonzero() for gradients in found)]
    if silent:
        warnings.warn(f"inputs names {', '.join(silent)}, but no gradient arrives there", UnreachedInput, stacklevel=2)


CHECKS: dict[str, Callable[[Gem], None]] = {
    check.__name__: check
    for check in (read_only, shape, deterministic, members, packs, autograd, gradcheck, finite, ends, off, inputs)
}
FIRST = ("read_only", "shape")  # where these fail, the others would only say so again


def check_gem(gem: Gem) -> list[Finding]:
    """The findings of all checks in order; of those up to the first failure where nothing could be measured."""
    findings: list[Finding] = []
    for name in CHECKS:
        findings.append(_finding(name, gem))
        if not findings[-1].ok and name in FIRST:
            break
    return findings


def _finding(name: str, gem: Gem) -> Finding:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            CHECKS[name](gem)
        except Nonconforming as error:
            return Finding(name, False, str(error))
        except Exception as error:  # a gem of somebody else's may raise anything
            return Finding(name, False, f"{type(error).__name__}: {error}")
    return Finding(name, True, "; ".join(str(w.message) for w in heard if w.category is UnreachedInput))


def _changed_neighbours(ctx: GemContext, member: int, sizes: Shape) -> Iterator[tuple[str, GemContext]]:
    """`ctx` with other tensors for all members but one."""
    others = torch.arange(sizes.members) != member
    drawn = replace(random_context(sizes, seed=1), active=torch.zeros_like(ctx.active))
    for what in ("other numbers", "NaN"):
        tensors = {}
        for name, tensor in tensors_of(ctx).items():
            new = getattr(drawn, name)
            new = torch.full_like(new, float("nan")) if what == "NaN" and new.is_floating_point() else new
            tensors[name] = torch.where(others.view(-1, *[1] * (tensor.dim() - 1)), new, tensor)
        yield what, GemContext(**tensors)
