"""What the checks of a gem require of its numbers, with the sentence for what does not meet it."""

from __future__ import annotations

import torch

from trainer.bits import unequal
from trainer.gems.contract import Gem, GemContext, Measure
from trainer.gems.sample_contexts import Shape

VALUE_TOLERANCE, GRADIENT_TOLERANCE = 1e-4, 1e-3  # of float32 against float64, relative to the largest number


class Nonconforming(AssertionError):
    """What the gem does, and what to change."""


def measure(gem: Gem, ctx: GemContext) -> Measure:
    """What the training step would get from the gem."""
    with torch.no_grad():  # as the training step does
        return gem.measure(ctx)


def of_member(found: Measure, member: int) -> Measure:
    """The numbers of one member, without its axis."""
    return Measure(found.value[member], {name: gradient[member] for name, gradient in found.gradients.items()})


def differing(one: Measure, two: Measure) -> str:
    """What has other bits in one than in two; empty when nothing has."""
    if not equal(one.value, two.value):
        return "the value"
    names = [name for name, gradient in one.gradients.items() if not equal(gradient, two.gradients[name])]
    return f"the gradient of {', '.join(names)}" if names else ""


def equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Bit for bit; NaN equals itself."""
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    return not unequal(one.detach().contiguous().numpy(), two.detach().contiguous().numpy()).any()


def require_like(what: str, found: object, wanted: torch.Tensor, sizes: Shape) -> None:
    """`found` is a tensor with the shape and dtype of `wanted`."""
    got, hint = type(found).__name__, ""
    if isinstance(found, torch.Tensor):
        if found.shape == wanted.shape and found.dtype == wanted.dtype:
            return
        got = f"{tuple(found.shape)} {found.dtype}"
        hint = "; take the dtype from the tensors of ctx" if found.shape == wanted.shape else ""
    raise Nonconforming(f"{what} is {got}, not {tuple(wanted.shape)} {wanted.dtype} (with {sizes}){hint}")


def require_close(what: str, found: torch.Tensor, exact: torch.Tensor, tolerance: float) -> None:
    """`found` is within `tolerance` of the largest number of `exact`, and NaN nowhere."""
    largest = float(exact.abs().max()) if exact.numel() else 0.0
    error = float((found.double() - exact).abs().max())
    if not error <= tolerance * largest + 1e-12:
        raise Nonconforming(
            f"{what} of measure(ctx) is off by {error:.1e} from autograd of forward(ctx) in float64, "
            f"whose largest number is {largest:.1e}"
        )


def require_finite(gem: Gem, ctx: GemContext, what: str) -> None:
    """Value and gradients on `ctx`, described by `what`, are finite."""
    found = measure(gem, ctx)
    named = {"the value": found.value} | {f"the gradient of {name}": x for name, x in found.gradients.items()}
    broken = [name for name, tensor in named.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        raise Nonconforming(
            f"{', '.join(broken)} is not finite with {what}: keep divisions, roots and logarithms away from 0"
        )
