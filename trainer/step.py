"""One training iteration of a pack, in the seeds' order: walk -> graph_forward -> aux operations -> graph_adam.

`graph_forward` samples, runs the forwards and the losses, writes each source's row, begins the gradient anew with C51
scaled to its budget and adds the others. The aux operations add CQL, distillation and the wired gems. `graph_adam`
clips each member, steps Adam and moves the target network. Nothing else writes gradients, and what is added between two
iterations is gone. No host number enters: hyperparameters and counts are read from `signals` and `counters`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

import numba_kernels as nk
from trainer import draws
from trainer.aux_ops import add_wired, cql, distill, measure_gems
from trainer.components import c51_budget
from trainer.explore import explore, prefer
from trainer.market import advance, restart, target_of
from trainer.measurement import observe_rows, observe_update, slice_norms
from trainer.optimiser import adam, clip
from trainer.pack import Pack
from trainer.replay import insert, update_priorities
from trainer.schedules import write_schedules
from trainer.sources import BACKWARD, Forwarded, c51, forward_batch, side


def begin_walks(pack: Pack) -> None:
    """Put every walk on its first bar; once, before the first iteration."""
    u = pack.draws.once(draws.RESTART, pack.spec.trainer.environments)
    restart(pack.walks, pack.spans, torch.ones_like(pack.walks.row, dtype=torch.bool), u)


def walk(pack: Pack) -> None:
    """Act for one bar in every market walk, with exploration, and store the transitions."""
    write_schedules(pack.signals, pack.counters)
    trainer, walks, bars = pack.spec.trainer, pack.walks, pack.counters["bars"].clone()
    noisy = side(pack, pack.online, draws.NOISE_WALK, bars)
    preferred = prefer(pack, noisy.weights, noisy.norm, pack.market.observe(walks.row, walks.target))
    u = pack.draws.uniform(draws.EXPLORE, bars, 4, trainer.environments)
    direction, magnitude = explore(*preferred, pack.signals["epsilon"], u)
    row, before = walks.row.clone(), walks.target.clone()
    reward, flags, ended = advance(pack.market, walks, target_of(direction, magnitude), pack.signals["episode_bars"])
    scaled = (reward * pack.signals["reward_scale"].double()[:, None]).float()
    insert(
        pack.replay,
        bars,
        row=row,
        target=before,
        executed=walks.target,
        direction=direction,
        magnitude=magnitude,
        reward=scaled,
        flags=flags,
    )
    pack.counters["bars"].add_(1)
    restart(walks, pack.spans, ended, pack.draws.uniform(draws.RESTART, bars + 1, trainer.environments))


@dataclass(frozen=True)
class Summed:
    """What `graph_forward` hands on. `losses` `[P]` by name, `coefficients` `[P]` by component."""

    done: Forwarded
    losses: dict[str, torch.Tensor]
    priority: torch.Tensor  # [P, B]
    reference: torch.Tensor  # |c51_bs|, [P]
    coefficients: dict[str, torch.Tensor]


def graph_forward(pack: Pack) -> Summed:
    """Sample, forwards, losses, rows; the gradient begins anew as C51 within its budget; add what else this phase
    applies."""
    done = forward_batch(pack)
    loss = c51(pack, done)
    scale, kept = c51_budget(slice_norms(pack.row("c51")[None], pack.starts)[0], pack.signals)
    nk.scaled(pack.gradient, scale, pack.row("c51"), pack.used)  # over whatever stands there
    losses, coefficients = {"c51": loss.value}, {"c51_bs": scale}
    for name in pack.backward_sources:
        losses[name] = BACKWARD[name](pack, done, loss)
        coefficients[name] = pack.signals[pack.component(name).gates[0]]  # its weight, in the row already
        nk.saxpy(pack.gradient, (coefficients[name] != 0).float(), pack.row(name), pack.used)
    return Summed(done, losses, loss.priority, kept, coefficients)


def aux_ops(pack: Pack, summed: Summed, diagnose: bool) -> dict[str, torch.Tensor]:
    """Add CQL, distillation and the wired gems; returns gem values by name, of those that ran."""
    if "cql" in pack.features:
        summed.losses["cql"], summed.coefficients["cql_sx"] = cql(pack, summed.done, summed.reference)
    if "distillation" in pack.features:
        summed.coefficients["distill"] = distill(pack, diagnose)
    running = [gem for gem in pack.gems if diagnose or gem.name in pack.wired]
    values = measure_gems(pack, running, summed.done) if running else {}
    summed.coefficients.update(add_wired(pack, summed.reference))
    return values


def graph_adam(pack: Pack, summed: Summed) -> tuple[torch.Tensor, torch.Tensor]:
    """Clip, Adam, target update, power iterations, priorities. Returns the applied norm and the clip factor, `[P]`."""
    norms = slice_norms(pack.gradient[None], pack.starts)[0]
    clipped = clip(norms, summed.losses["c51"], pack.signals, pack.counters)
    online, target, moments = pack.online, pack.target, (pack.first_moment, pack.second_moment)
    low, alive = (online.low, target.low), clipped.alive != 0
    adam(online.params, target.params, pack.gradient, *moments, clipped, pack.used, low)
    if "spectral_norm" in pack.features:
        online.iterate(alive)
        target.iterate(alive)
    if "prioritised_replay" in pack.features:
        update_priorities(pack.replay, summed.done.batch.index, summed.priority, alive)
    pack.counters["updates"].add_(1)
    return clipped.norm, clipped.factor


def update(pack: Pack, diagnose: bool) -> Summed:
    """One optimiser update of every member. `diagnose` also measures all gems and norms, and changes no bit of it.

    Returns the batch and what the networks made of it, for whoever debugs: holding it keeps its memory.
    """
    write_schedules(pack.signals, pack.counters)
    summed = graph_forward(pack)
    values = aux_ops(pack, summed, diagnose)
    if diagnose:
        observe_rows(pack, values, summed.coefficients)
    norm, factor = graph_adam(pack, summed)
    observe_update(pack, summed.losses, norm, factor, diagnose)
    return summed


def iterate(pack: Pack, diagnose: bool) -> None:
    """Walk one bar, then one update."""
    walk(pack)
    update(pack, diagnose)
