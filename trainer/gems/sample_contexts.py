"""Random and hostile `GemContext`s, on which any gem can be tried without a trainer."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from trainer.data.features import CLIP
from trainer.data.features import FEATURES as COLUMNS
from trainer.gems.contract import GemContext
from trainer.gems.registry import CARRIERS
from trainer.params import DIRECTIONS, MAGNITUDES, TARGETS

OBSERVATIONS = ("observation", "next_observation")
TEMPERATURES = (0.5, 0.1, 2.0, 1.0)  # of member 0, 1, 2, 3


@dataclass(frozen=True)
class Shape:
    """P members, B samples, H trunk units, h units of each head, atoms of the support."""

    members: int
    batch: int
    trunk: int
    head: int
    atoms: int


# Odd batches and narrow layers, where an operation over the wrong axis shows; trunk and heads never of one width.
SHAPES = (Shape(1, 3, 2, 3, 2), Shape(2, 5, 3, 2, 2), Shape(3, 7, 5, 4, 3), Shape(4, 9, 6, 8, 11))


def random_context(shape: Shape, dtype: torch.dtype = torch.float32, seed: int = 0) -> GemContext:
    """Generic activations: hidden ones above 0.1, away from the corners of ReLU, and a first pair that continues.

    Equal arguments give equal bits in new tensors; float32 is the rounded float64.
    """
    g = torch.Generator().manual_seed(seed)
    lead = (shape.members, shape.batch)
    tensors: dict[str, torch.Tensor] = {}
    for name in (field.name for field in fields(GemContext) if field.name in CARRIERS):
        drawn = torch.randn(*lead, *_width(name, shape), generator=g, dtype=torch.float64)
        tensors[name] = drawn.abs() + 0.1 if _is_hidden(name) else drawn
    tensors["continues"] = (torch.rand(*lead, generator=g) > 0.3).double()
    tensors["continues"][:, 0] = 1.0
    tensors["returns"] = torch.randn(*lead, generator=g, dtype=torch.float64)
    tensors["temperature"] = torch.tensor(TEMPERATURES[: shape.members], dtype=torch.float64)
    tensors |= {name: _observation(lead, g) for name in OBSERVATIONS}
    cast = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    for name, choices in (("direction", DIRECTIONS), ("magnitude", MAGNITUDES)):
        cast[name] = torch.randint(choices, lead, generator=g)
    return GemContext(**cast, active=torch.ones(shape.members, dtype=torch.int32))


def hostile_contexts() -> dict[str, GemContext]:
    """What training can show a gem at its worst, by name."""
    start = random_context(Shape(3, 7, 5, 4, 6))
    relu = {name: _after_relu(x) if _is_hidden(name) else x for name, x in activations(start).items()}
    made = {
        "all activations 0": {name: torch.zeros_like(x) for name, x in relu.items()},
        "equal samples": {name: x[:, :1].expand_as(x).clone() for name, x in relu.items()},
        "dead units": relu,
        "one-hot activations": {name: _one_hot(x) for name, x in relu.items()},
        "activations of 1e4": {name: 1e4 * x for name, x in relu.items()},
        "features of 0": {name: torch.zeros_like(getattr(start, name)) for name in OBSERVATIONS},
        "features at their ends": {name: CLIP * getattr(start, name).sign() for name in OBSERVATIONS},
        "two equal bars": {name: relu[name.removeprefix("next_")] for name in relu},
    }
    return {name: replace(start, **tensors) for name, tensors in made.items()}


def activations(ctx: GemContext) -> dict[str, torch.Tensor]:
    """The tensors of `ctx` that come from the network, by name."""
    return {name: tensor for name, tensor in tensors_of(ctx).items() if name in CARRIERS}


def tensors_of(ctx: GemContext) -> dict[str, torch.Tensor]:
    """All tensors of `ctx` by name."""
    return {field.name: getattr(ctx, field.name) for field in fields(ctx)}


def members_of(ctx: GemContext, members: list[int]) -> GemContext:
    """A context of some of the members of `ctx`, in new tensors."""
    return GemContext(**{name: tensor[members] for name, tensor in tensors_of(ctx).items()})


def _observation(lead: tuple[int, int], g: torch.Generator) -> torch.Tensor:
    """Features of about unit scale, within their ends, beside the one-hot of a target."""
    features = torch.randn(*lead, len(COLUMNS), generator=g, dtype=torch.float64).clamp(-CLIP, CLIP)
    held = torch.randint(TARGETS, lead, generator=g)
    return torch.cat((features, torch.nn.functional.one_hot(held, TARGETS).double()), -1)


def _width(name: str, shape: Shape) -> tuple[int, ...]:
    if name.endswith("_logits"):
        return (DIRECTIONS, shape.atoms)
    if name.endswith("_q"):
        return (DIRECTIONS,)
    return (shape.head,) if name.endswith("_hidden") else (shape.trunk,)


def _is_hidden(name: str) -> bool:
    """Is it the output of a ReLU?"""
    return name.endswith(("trunk", "_hidden"))


def _one_hot(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).scatter_(-1, x.argmax(-1, keepdim=True), 1.0)


def _after_relu(x: torch.Tensor) -> torch.Tensor:
    """Hidden features as ReLU leaves them: half of them 0, one unit dead, one sample without any."""
    cut = (x - x.median()).relu()
    cut[..., 0] = 0.0
    cut[:, 1] = 0.0
    return cut
