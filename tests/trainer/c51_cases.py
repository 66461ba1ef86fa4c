"""The C51 kernel asked in the terms of its papers: distributions and logits instead of the outputs of heads."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from trainer.losses.c51 import C51Loss, c51_loss
from trainer.network import Activations, columns_of

FLAT = 1


def activations(value: torch.Tensor, direction: torch.Tensor, magnitude: torch.Tensor) -> Activations:
    """Head outputs: value `[P, B, K]` and advantages `[P, B, 3, K]`, biases 0."""
    atoms, columns = value.shape[-1], columns_of(value.shape[-1])
    streams = torch.zeros(*value.shape[:2], columns["magnitude"].stop)
    parts = {"value": value, "direction": direction.flatten(2), "magnitude": magnitude.flatten(2)}
    for head, part in parts.items():
        streams[..., columns[head].start : columns[head].start + part.shape[-1]] = part
    return SimpleNamespace(streams=streams, offset=torch.zeros(value.shape[0], 6, atoms))


def shown(logits: torch.Tensor) -> Activations:
    """Both branches show `logits` `[P, B, 3, K]`."""
    return activations(logits.mean(2), logits, logits)


def only_at(logits: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Advantages `[P, B, 3, K]` without a mean whose entry at `action` is `logits` `[P, B, K]`."""
    spread = -0.5 * logits.unsqueeze(2).expand(-1, -1, 3, -1)
    index = action[..., None, None].expand(-1, -1, 1, logits.shape[-1])
    return spread.scatter(2, index, logits.unsqueeze(2))


def taken(direction: torch.Tensor, magnitude: torch.Tensor, actions: tuple[torch.Tensor, torch.Tensor]) -> Activations:
    """Branches that show logits `[P, B, K]` at the actions taken."""
    advantages = (only_at(x, a) for x, a in zip((direction, magnitude), actions, strict=True))
    return activations(torch.zeros_like(direction), *advantages)


def loss_of(
    act: Activations,
    later: Activations,
    valued: Activations,
    actions: tuple[torch.Tensor, torch.Tensor],
    support: torch.Tensor,
    reward: torch.Tensor | None = None,
    discount: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
) -> C51Loss:
    """The loss of a batch; support `[K]` or `[P, K]`; without a reward the target is the next distribution itself."""
    direction, magnitude = actions
    zeros, ones = torch.zeros(direction.shape), torch.ones(direction.shape)
    batch = SimpleNamespace(
        direction=direction,
        magnitude=magnitude,
        returns=zeros if reward is None else reward,
        discount=ones if discount is None else discount,
        weight=ones if weight is None else weight,
    )
    own = support.expand(len(direction), -1).contiguous()
    both = SimpleNamespace(streams=torch.cat((act.streams, later.streams), 1), offset=act.offset)
    return c51_loss(both, valued, batch, own)


def target_of(later: Activations, valued: Activations, reward, discount, support) -> torch.Tensor:
    """The projected target m `[P, B, K]`, read off the loss.

    Where all logits are 0 and flat was taken, the loss is M log(K) / 2 with M the mass of m, and its gradient at the
    value head is w (M / K - m) / 2B; the weight w is 2B.
    """
    shape, atoms = reward.shape, support.shape[-1]
    nothing, flat = shown(torch.zeros(*shape, 3, atoms)), torch.full(shape, FLAT)
    weight = torch.full(shape, 2.0 * shape[1])
    loss = loss_of(nothing, later, valued, (flat, flat), support, reward, discount, weight)
    mass = 2.0 * loss.sample / torch.log(torch.tensor(float(atoms)))
    return mass[..., None] / atoms - loss.streams[..., :atoms]


def project(p: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """p `[P, B, K]` as the next distribution, shifted and projected. A probability of 0 becomes one of 1e-30."""
    valued = shown(p.clamp_min(1e-30).log().unsqueeze(2).expand(-1, -1, 3, -1))
    return target_of(valued, valued, reward, discount, support)
