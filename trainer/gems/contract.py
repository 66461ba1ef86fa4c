"""What a gem is: a value computed from the network's activations, and the gradient it would send back into them.

A user's gem is one small class:

    class Sharpness(Gem):
        name = "sharpness"
        inputs = ("direction_q",)
        may_duplicate = ("spectral_norm",)

        def forward(self, ctx):
            return -ctx.direction_q.var(-1)          # [P, B], or [P] for a batch statistic

Its gradient is taken by autograd on the tensors named in `inputs`, and carried from there to the parameters by the
network's own backward. A gem with a faster analytic gradient overrides `measure`. `conformance.py` checks
any gem.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch


@dataclass(frozen=True)
class GemContext:
    """Activations of the online network on a batch, at bar t and (`next_`) at bar t + 1; P members, B samples.

    Writing to these tensors is not allowed; reading any of them is. Only those named in `Gem.inputs` carry gradient;
    what the network did not compute (from `observation` on) cannot be named there: it is data.

    An observation holds the market's features at the close of its bar, in the order of `FEATURES` of
    `trainer.data.features`, then a one-hot of the target exposure held. `next_observation` holds the exposure that the
    action led to. What only bar t + 1 knows is no part of the choice at bar t: a gem may read it to train, as a target.
    """

    trunk: torch.Tensor  # [P, B, H]
    value_hidden: torch.Tensor  # [P, B, h]
    direction_hidden: torch.Tensor  # [P, B, h]
    magnitude_hidden: torch.Tensor  # [P, B, h]
    direction_logits: torch.Tensor  # [P, B, 3, atoms]
    magnitude_logits: torch.Tensor  # [P, B, 3, atoms]
    direction_q: torch.Tensor  # [P, B, 3], expected return in train volatilities
    magnitude_q: torch.Tensor  # [P, B, 3]
    prediction: torch.Tensor  # [P, B, H], the predictive head's guess of next_trunk
    next_trunk: torch.Tensor
    next_direction_hidden: torch.Tensor
    next_magnitude_hidden: torch.Tensor
    next_direction_q: torch.Tensor
    next_magnitude_q: torch.Tensor
    observation: torch.Tensor  # float32 [P, B, F]: what the network sees at bar t
    next_observation: torch.Tensor  # float32 [P, B, F]: what it sees at bar t + 1
    direction: torch.Tensor  # int64 [P, B], action taken at bar t: 0 short, 1 flat, 2 long
    magnitude: torch.Tensor  # int64 [P, B], action taken at bar t, from a third to full; without effect when flat
    continues: torch.Tensor  # float32 [P, B]: 1 where t + 1 belongs to the same episode, else 0
    returns: torch.Tensor  # float32 [P, B]: n-step return of the sample, in train volatilities
    temperature: torch.Tensor  # float32 [P]: of softmax(q / temperature)
    active: torch.Tensor  # int32 [P]: 0 where this gem is off


@dataclass(frozen=True)
class Measure:
    """`value` `[P]` and d(value)/d(ctx tensor) by the names of `Gem.inputs`."""

    value: torch.Tensor
    gradients: dict[str, torch.Tensor]


def _versions(ctx: GemContext) -> list[int]:
    """How often each tensor was written to."""
    return [getattr(ctx, field.name)._version for field in fields(ctx)]


class GemError(ValueError):
    """A gem that cannot be used, with what to change."""


class Gem(ABC):
    """Base class; `name` is lower case with underscores and unique in an experiment.

    `coefficient` is the weight that the gem would carry in the loss: it scales the size that a probe reports. The
    configuration can override it; a wired gem is weighted by its dose instead.
    """

    name: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]]
    may_duplicate: ClassVar[tuple[str, ...]] = ()
    coefficient: ClassVar[float] = 0.1
    reference: str = ""  # how the configuration names it

    @abstractmethod
    def forward(self, ctx: GemContext) -> torch.Tensor:
        """The loss in torch: per sample `[P, B]` (its batch mean counts) or per member `[P]`. Members must not mix."""

    def measure(self, ctx: GemContext) -> Measure:
        """Value and gradients by autograd through `forward`. An override leaves zeros where `ctx.active` is 0."""
        leaves = {name: getattr(ctx, name).detach().requires_grad_() for name in self.inputs}
        with torch.enable_grad():
            seen = replace(ctx, **leaves)
            versions = _versions(seen)
            value = member_values(self, seen)
            if _versions(seen) != versions:  # it would change what the next gem measures
                raise GemError(f"gem {self.name}: forward(ctx) wrote to a tensor of ctx; work on a copy")
            if not value.requires_grad:  # a constant has no gradient, and autograd would refuse to say so
                return Measure(value, {name: torch.zeros_like(leaf) for name, leaf in leaves.items()})
            grads = torch.autograd.grad(value.sum(), list(leaves.values()), allow_unused=True)
        named = zip(leaves.items(), grads, strict=True)
        found = {name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in named}
        return Measure(value.detach(), found)


def member_values(gem: Gem, ctx: GemContext) -> torch.Tensor:
    """The loss of each member `[P]`, checked: anything else that `forward` gives would mix members or mean nothing."""
    value: object = gem.forward(ctx)
    shapes = (ctx.continues.shape[:1], ctx.continues.shape)
    if isinstance(value, torch.Tensor) and value.shape in shapes and value.is_floating_point():
        return value.mean(1) if value.dim() == 2 else value
    found = f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else type(value).__name__
    wanted = " or ".join(str(tuple(shape)) for shape in shapes)
    raise GemError(f"gem {gem.name}: forward(ctx) gave {found}; it must be a float tensor of shape {wanted}")
