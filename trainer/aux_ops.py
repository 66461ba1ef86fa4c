"""The aux operations between `graph_forward` and `graph_adam`: measure the gems, add the wired ones.

A gem's gradient enters at activations; the network's own backward carries it to the parameters, into the gem's row.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from trainer.components import add_selected, wired_coefficient
from trainer.gems.contract import Gem, GemContext
from trainer.gems.registry import component_name
from trainer.measurement import shared, slice_norms
from trainer.network import Activations, action_values, backward, forward, logits_gradient, predict
from trainer.pack import Pack
from trainer.replay import Batch


def gem_context(pack: Pack, batch: Batch, act: Activations, later: Activations) -> GemContext:
    """What gems may read, from the online network's activations at t (`act`) and t + 1 (`later`)."""
    support, one_hot = pack.support, pack.market.targets[batch.executed]
    return GemContext(
        trunk=act.trunk,
        value_hidden=act.value_hidden,
        direction_hidden=act.direction_hidden,
        magnitude_hidden=act.magnitude_hidden,
        direction_logits=act.direction_logits,
        magnitude_logits=act.magnitude_logits,
        direction_q=action_values(act.direction_logits, support),
        magnitude_q=action_values(act.magnitude_logits, support),
        prediction=predict(pack.online.weights, act.trunk, one_hot),
        next_trunk=later.trunk,
        next_direction_hidden=later.direction_hidden,
        next_magnitude_hidden=later.magnitude_hidden,
        next_direction_q=action_values(later.direction_logits, support),
        next_magnitude_q=action_values(later.magnitude_logits, support),
        continues=batch.continues,
        returns=batch.returns,
        temperature=pack.signals["q_temperature"].contiguous(),
        active=torch.ones(pack.size, dtype=torch.int32, device=pack.device),
    )


def entry_gradients(
    gradients: dict[str, torch.Tensor], act: Activations, support: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Gradients on action values become gradients on logits; the others stay."""
    found: dict[str, torch.Tensor] = {}
    for name, gradient in gradients.items():
        branch, is_q, _ = name.partition("_q")
        entry = f"{branch}_logits" if is_q else name
        if is_q:
            gradient = logits_gradient(getattr(act, entry), support, gradient)
        found[entry] = found[entry] + gradient if entry in found else gradient
    return found


def write_row(pack: Pack, gem: Gem, gradients: dict[str, torch.Tensor], batch: Batch, acts: list[Activations]) -> None:
    """Carry d(gem)/d(activations) at t and t + 1 to the parameters and write the gem's row."""
    name, online, norm = component_name(gem.name), pack.online.weights, pack.online.norm()
    sides = [{k: g for k, g in gradients.items() if k.startswith("next_") == late} for late in (False, True)]
    sides[1] = {k.removeprefix("next_"): g for k, g in sides[1].items()}
    one_hot = pack.market.targets[batch.executed]
    if sides[0]:
        entries = entry_gradients(sides[0], acts[0], pack.support)
        backward(online, norm, acts[0], entries, pack.row_views[name], one_hot)
    else:
        pack.row(name).zero_()
    if sides[1]:
        second = torch.zeros_like(pack.row(name))
        entries = entry_gradients(sides[1], acts[1], pack.support)
        backward(online, norm, acts[1], entries, pack.layout.views(second), one_hot)
        pack.row(name).add_(second)


def measure_gems(pack: Pack, gems: list[Gem], batch: Batch, act: Activations) -> dict[str, torch.Tensor]:
    """Value `[P]` of each gem by name, and its row; NaN value and zero row where the gem is off."""
    later = forward(pack.online.weights, pack.online.norm(), pack.market.observe(batch.next_row, batch.executed))
    ctx, values = gem_context(pack, batch, act, later), {}
    for gem in gems:
        active = pack.gem_active[gem.name]
        found = gem.measure(replace(ctx, active=active))
        write_row(pack, gem, found.gradients, batch, [act, later])
        off = active == 0
        pack.row(component_name(gem.name)).masked_fill_(off[:, None], 0.0)
        values[gem.name] = found.value.masked_fill(off, float("nan"))
    return values


def add_wired(pack: Pack, applied: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """`applied` `[P, total]` plus every wired gem at its dose, a share of `reference` = |c51_bs| `[P]`."""
    for gem in pack.gems:
        if gem.name in pack.wired:
            row = pack.row(component_name(gem.name))
            coefficient = wired_coefficient(
                gem.name, shared(slice_norms(row[None], pack.starts)[0]), reference, pack.signals
            )
            add_selected(applied, coefficient, row)
    return applied
