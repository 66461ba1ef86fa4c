"""The aux operations between `graph_forward` and `graph_adam`, in this order: CQL, distillation, G12, G6, G10, users'.

They add to the gradient of the step that is under way. A contribution added anywhere else is lost: `graph_forward`
begins the gradient anew. A gem's gradient enters at activations; the network's own backward carries it to the
parameters, into the gem's row.
"""

from __future__ import annotations

from dataclasses import replace

import torch

import numba_kernels as nk
from trainer.components import cql_scale, wired_coefficient
from trainer.gems.contract import Gem, GemContext
from trainer.gems.registry import component_name
from trainer.losses.cql import cql_loss
from trainer.measurement import shared, slice_norms, whole
from trainer.network import Activations, action_values, backward, logits_gradient, predict
from trainer.pack import Pack
from trainer.sources import Forwarded


def cql(pack: Pack, done: Forwarded, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Write the raw row of CQL and add its scaled part. Returns the loss and what the row was multiplied with, `[P]`.

    `reference` `[P]` is |c51_bs|.
    """
    loss = cql_loss(done.both, done.batch.direction, done.batch.magnitude, pack.support)
    entry = {"streams": loss.d_values}
    backward(done.online.weights, done.online.norm, done.act, entry, pack.row_views["cql"])
    row = pack.row("cql").masked_fill_(~pack.signals.uses("cql")[:, None], 0.0)
    coefficient = cql_scale(whole(slice_norms(row[None], pack.starts)[0]), reference, pack.signals)
    nk.saxpy(pack.gradient, coefficient, row, pack.used)
    return loss.value, coefficient


def distill(pack: Pack, diagnose: bool) -> torch.Tensor:
    """gradient += alpha (theta - best), on every step; alpha `[P]` comes from slot 12 inside the kernel.

    alpha = alpha_max x clip((h_on - health) / h_on, 0, 1) and 0 until a snapshot was accepted. `diagnose` also writes
    the row, which is the same kernel on zeros.
    """
    assert pack.snapshots is not None
    alpha = torch.empty(pack.size, device=pack.device)
    targets = [pack.row("distill").zero_(), pack.gradient] if diagnose else [pack.gradient]
    for target in targets:
        nk.distill_saxpy(
            target, pack.online.params, pack.snapshots.best, pack.signals.table, pack.distill_slots, alpha, pack.used
        )
    pack.signals["distill_alpha"].copy_(alpha)
    return alpha


def gem_context(pack: Pack, done: Forwarded, later: Activations) -> GemContext:
    """What gems may read, from the online network's activations at t and t + 1 (`later`)."""
    support, batch, act = pack.support, done.batch, done.act
    return GemContext(
        trunk=act.trunk.float(),
        value_hidden=act.value_hidden.float(),
        direction_hidden=act.direction_hidden.float(),
        magnitude_hidden=act.magnitude_hidden.float(),
        direction_logits=act.direction_logits,
        magnitude_logits=act.magnitude_logits,
        direction_q=action_values(act.direction_logits, support),
        magnitude_q=action_values(act.magnitude_logits, support),
        prediction=predict(done.online.weights, act.trunk.float(), pack.market.targets[batch.executed]),
        next_trunk=later.trunk.float(),
        next_direction_hidden=later.direction_hidden.float(),
        next_magnitude_hidden=later.magnitude_hidden.float(),
        next_direction_q=action_values(later.direction_logits, support),
        next_magnitude_q=action_values(later.magnitude_logits, support),
        observation=act.observation,
        next_observation=later.observation,
        direction=batch.direction,
        magnitude=batch.magnitude,
        continues=batch.continues,
        returns=batch.returns,
        temperature=pack.signals["q_temperature"].contiguous(),
        active=torch.ones(pack.size, dtype=torch.int32, device=pack.device),
    )


def entry_gradients(
    gradients: dict[str, torch.Tensor], act: Activations, support: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Gradients on action values become gradients on logits. In memory of their own: backward masks them in place."""
    found: dict[str, torch.Tensor] = {}
    for name, gradient in gradients.items():
        branch, is_q, _ = name.partition("_q")
        entry = f"{branch}_logits" if is_q else name
        if is_q:
            gradient = logits_gradient(getattr(act, entry), support, gradient)
        own = gradient.clone(memory_format=torch.contiguous_format)
        found[entry] = found[entry] + gradient if entry in found else own
    return found


def write_row(
    pack: Pack, gem: Gem, gradients: dict[str, torch.Tensor], done: Forwarded, acts: tuple[Activations, Activations]
) -> None:
    """Carry d(gem)/d(activations) at t and t + 1 to the parameters and write the gem's row.

    The row is cleared first: what only t + 1 reaches is not overwritten by the backward at t, and the second half would
    add to what an earlier update left there.
    """
    name, weights, norm = component_name(gem.name), done.online.weights, done.online.norm
    sides = [{k: g for k, g in gradients.items() if k.startswith("next_") == late} for late in (False, True)]
    sides[1] = {k.removeprefix("next_"): g for k, g in sides[1].items()}
    one_hot = pack.market.targets[done.batch.executed]
    pack.row(name).zero_()
    if sides[0]:
        entries = entry_gradients(sides[0], acts[0], pack.support)
        backward(weights, norm, acts[0], entries, pack.row_views[name], one_hot)
    if sides[1]:
        second = torch.zeros_like(pack.row(name))
        entries = entry_gradients(sides[1], acts[1], pack.support)
        backward(weights, norm, acts[1], entries, pack.layout.views(second), one_hot)
        pack.row(name).add_(second)


def measure_gems(pack: Pack, gems: list[Gem], done: Forwarded) -> dict[str, torch.Tensor]:
    """Value `[P]` of each gem by name, and its row; NaN value and zero row where the gem is off."""
    next_view = pack.market.observe(done.batch.next_row, done.batch.executed)
    later = done.online.forward(next_view)
    ctx, values = gem_context(pack, done, later), {}
    for gem in gems:
        active = pack.gem_active[gem.name]
        found = gem.measure(replace(ctx, active=active))
        write_row(pack, gem, found.gradients, done, (done.act, later))
        off = active == 0
        pack.row(component_name(gem.name)).masked_fill_(off[:, None], 0.0)
        values[gem.name] = found.value.masked_fill(off, float("nan"))
    return values


def add_wired(pack: Pack, reference: torch.Tensor) -> dict[str, torch.Tensor]:
    """Add every wired gem at its dose, a share of `reference` = |c51_bs| `[P]`. Returns coefficients by component."""
    found = {}
    for gem in pack.gems:
        if gem.name in pack.wired:
            name = component_name(gem.name)
            norm = shared(slice_norms(pack.row(name)[None], pack.starts)[0])
            found[name] = wired_coefficient(gem.name, norm, reference, pack.signals)
            nk.saxpy(pack.gradient, found[name], pack.row(name), pack.used)
    return found
