"""One training iteration of a pack, in the seeds' order: walk -> graph_forward -> aux operations -> graph_adam.

`graph_forward` samples, runs the forwards and the losses, writes the row of C51 (written over, never added to) and
scales C51 to its budget. The aux operations measure the gems and add the wired ones. `graph_adam` clips each member,
steps Adam and moves the target network. Nothing else writes gradients. No host number enters: hyperparameters and
counts are read from `signals` and `counters`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer import draws
from trainer.aux_ops import add_wired, measure_gems
from trainer.components import c51_scale, observe_applied
from trainer.explore import epsilon, explore, greedy
from trainer.losses.c51 import c51_loss, next_distribution, project
from trainer.market import advance, restart, target_of
from trainer.measurement import observe_rows, observe_update, slice_norms, whole
from trainer.network import Activations, backward, forward
from trainer.optimiser import adam, clip_factor, freeze
from trainer.pack import Pack
from trainer.replay import Batch, insert, sample


def begin_walks(pack: Pack) -> None:
    """Put every walk on its first bar; once, before the first iteration."""
    u = pack.draws.once(draws.RESTART, pack.spec.trainer.environments)
    restart(pack.walks, pack.spans, torch.ones_like(pack.walks.row, dtype=torch.bool), u)


def walk(pack: Pack) -> None:
    """Act epsilon-greedily for one bar in every market walk and store the transitions."""
    trainer, walks, bars = pack.spec.trainer, pack.walks, pack.counters["bars"].clone()
    act = forward(pack.online.weights, pack.online.norm(), pack.market.observe(walks.row, walks.target))
    u = pack.draws.uniform(draws.EXPLORE, bars, 3, trainer.environments)
    direction, magnitude = explore(*greedy(act, pack.support), epsilon(pack.signals, pack.counters), u)
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
class Forwarded:
    """What `graph_forward` hands on: the batch, the online activations, the loss and the norms of `c51` by slice."""

    batch: Batch
    act: Activations
    loss: torch.Tensor
    raw_norms: torch.Tensor
    scale: torch.Tensor


def graph_forward(pack: Pack) -> Forwarded:
    """Sample, forwards, C51 loss, its row, and the budget factor."""
    trainer = pack.spec.trainer
    u = pack.draws.uniform(draws.SAMPLE, pack.counters["updates"].clone(), 2, trainer.batch_size)
    batch = sample(pack.replay, pack.counters["bars"], trainer.n_step, pack.signals["discount"], u)
    online, norm = pack.online.weights, pack.online.norm()
    act = forward(online, norm, pack.market.observe(batch.row, batch.target))
    later = pack.market.observe(batch.later_row, batch.later_target)
    chosen, valued = forward(online, norm, later), forward(pack.target.weights, pack.target.norm(), later)
    p = next_distribution(
        chosen.direction_logits,
        chosen.magnitude_logits,
        valued.direction_logits,
        valued.magnitude_logits,
        pack.support,
    )
    m = project(p, batch.returns, batch.discount, pack.support)
    loss = c51_loss(act.direction_logits, act.magnitude_logits, batch.direction, batch.magnitude, m)
    d = {"direction_logits": loss.direction_logits, "magnitude_logits": loss.magnitude_logits}
    backward(online, norm, act, d, pack.row_views["c51"])
    raw_norms = slice_norms(pack.row("c51")[None], pack.starts)[0]
    return Forwarded(batch, act, loss.value, raw_norms, c51_scale(whole(raw_norms), pack.signals))


def graph_adam(pack: Pack, done: Forwarded, applied: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Clip, Adam, target update, power iterations. Returns the applied norm and the clip factor, `[P]`."""
    norm = whole(slice_norms(applied[None], pack.starts)[0])
    observe_applied(norm, pack.signals)
    alive = freeze(pack.counters, norm, done.loss)
    factor = clip_factor(norm, pack.signals["clip_norm"])
    online, target = pack.online, pack.target
    moments = pack.first_moment, pack.second_moment
    adam(online.params, target.params, applied, *moments, pack.signals, pack.counters, factor, alive)
    online.iterate()
    target.iterate()
    pack.counters["updates"].add_(1)
    return norm, factor


def update(pack: Pack, diagnose: bool) -> None:
    """One optimiser update of every member. `diagnose` also measures all gems and norms, and changes no bit of it."""
    done = graph_forward(pack)
    applied = pack.row("c51_bs")
    torch.mul(pack.row("c51"), done.scale[:, None], out=applied)
    reference = whole(done.raw_norms) * done.scale
    running = [gem for gem in pack.gems if diagnose or gem.name in pack.wired]
    values = measure_gems(pack, running, done.batch, done.act) if running else {}
    if diagnose:
        observe_rows(pack, values)
    if pack.wired:
        applied = add_wired(pack, applied.clone(), reference)
    norm, factor = graph_adam(pack, done, applied)
    observe_update(pack, done.loss, norm, factor, done.scale, diagnose)


def iterate(pack: Pack, diagnose: bool) -> None:
    """Walk one bar, then one update."""
    walk(pack)
    update(pack, diagnose)
