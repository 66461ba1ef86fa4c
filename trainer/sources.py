"""The backward sources: forwards of one batch, and the gradient row of each loss that `graph_forward` owns.

A row is written over, never added to. Every row already carries its weight from the signals.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer import draws
from trainer.dense import Weights
from trainer.heads import ensemble as ensemble_head
from trainer.heads import iqn as iqn_head
from trainer.heads import reconstruction as decoder
from trainer.losses import ensemble as ensemble_losses
from trainer.losses.c51 import C51Loss, c51_loss
from trainer.losses.iqn import iqn_loss, next_quantiles, td_target
from trainer.losses.reconstruction import reconstruction_loss
from trainer.network import Activations, SpectralNorm, backward, forward, low_operands
from trainer.noisy import perturb
from trainer.pack import Learner, Pack
from trainer.replay import Batch, sample


@dataclass(frozen=True)
class Side:
    """One network with one draw of its noise; `low`: what its products take in bfloat16, None for float32."""

    weights: Weights
    norm: SpectralNorm | None
    low: Weights | None = None

    def forward(self, observation: torch.Tensor) -> Activations:
        return forward(self.weights, self.norm, observation, self.low)


@dataclass(frozen=True)
class Forwarded:
    """A batch and what the networks make of it: online at t (`act`) and t + n (`later`), target at t + n (`valued`)."""

    batch: Batch
    online: Side
    target: Side
    both: Activations  # of the online network `[P, 2B, ...]`: `act`, then `later`
    act: Activations
    later: Activations
    valued: Activations


def side(pack: Pack, learner: Learner, purpose: int, step: torch.Tensor) -> Side:
    """`learner` with fresh noise where a member has noisy layers; `step` int64 `[P]`, contiguous."""
    weights = learner.weights
    if "noisy_nets" in pack.features:
        weights = perturb(weights, pack.draws, purpose, step, pack.signals["noisy_nets"])
    norm = learner.norm()
    low = low_operands(learner.low, pack.layout, weights, norm) if learner.low.shape[1] else None
    return Side(weights, norm, low)


def forward_batch(pack: Pack) -> Forwarded:
    """Sample the replay and run the three forwards of double DQN, each network under its own noise."""
    trainer, step = pack.spec.trainer, pack.counters["updates"].clone()
    u = pack.draws.uniform(draws.SAMPLE, step, trainer.batch_size)
    signals = pack.signals
    prioritised = "prioritised_replay" in pack.features
    exponents = (signals["priority_alpha"], signals["priority_beta"]) if prioritised else None
    batch = sample(pack.replay, pack.counters["bars"], trainer.n_step, signals["discount"], exponents, u)
    online = side(pack, pack.online, draws.NOISE_ONLINE, step)
    target = side(pack, pack.target, draws.NOISE_TARGET, step)
    size = trainer.batch_size
    views = pack.market.observe(batch.rows[:, ::2].flatten(1), batch.targets[:, ::2].flatten(1))  # t, then t + n
    both, valued = online.forward(views), target.forward(views[:, size:])
    return Forwarded(batch, online, target, both, both.samples(slice(size)), both.samples(slice(size, None)), valued)


def c51(pack: Pack, done: Forwarded) -> C51Loss:
    """Write the raw row of C51, before its budget."""
    loss = c51_loss(done.both, done.valued, done.batch, pack.support)
    backward(done.online.weights, done.online.norm, done.act, {"streams": loss.streams}, pack.row_views["c51"])
    return loss


def _weighted(signal: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """signal `[P]` x gradient `[P, ...]`, exactly 0 where the signal is, whatever the gradient holds."""
    lane = signal.view(-1, *[1] * (gradient.dim() - 1))
    return torch.where(lane != 0, lane * gradient, torch.zeros_like(gradient))


def _enter_trunk(pack: Pack, done: Forwarded, name: str, d_trunk: torch.Tensor) -> None:
    backward(done.online.weights, done.online.norm, done.act, {"trunk": d_trunk}, pack.row_views[name])


def iqn(pack: Pack, done: Forwarded, best: C51Loss) -> torch.Tensor:
    """Row and loss `[P]` of the quantile head; its trunk gradient passes through `iqn_readiness`.

    It bootstraps from the action that C51 finds `best`, the one that the agent would take.
    """
    trainer, batch, signals = pack.spec.trainer, done.batch, pack.signals
    step, shape = pack.counters["updates"].clone(), (trainer.batch_size, trainer.iqn.quantiles)
    tau = pack.draws.uniform(draws.TAU_ONLINE, step, *shape)
    act = iqn_head.forward(done.online.weights, done.act.trunk.float(), tau)
    later = iqn_head.forward(
        done.target.weights, done.valued.trunk.float(), pack.draws.uniform(draws.TAU_TARGET, step, *shape)
    )
    quantiles = next_quantiles(later.values, best.next_direction, best.next_magnitude)
    target = td_target(batch.returns, batch.discount, quantiles)
    loss = iqn_loss(act.values, tau, batch.direction, batch.magnitude, target, batch.weight, trainer.iqn.kappa)
    d_values = _weighted(signals["iqn_weight"], loss.d_values)
    d_trunk = iqn_head.backward(done.online.weights, act, d_values, pack.row_views["iqn"])
    _enter_trunk(pack, done, "iqn", _weighted(signals["iqn_readiness"], d_trunk))
    return loss.value


def ensemble(pack: Pack, done: Forwarded, best: C51Loss) -> torch.Tensor:
    """Row and loss `[P]` of the bootstrapped heads; each learns from its own share of the replay's places."""
    batch, heads = done.batch, pack.spec.trainer.ensemble.heads
    act = ensemble_head.forward(done.online.weights, done.act.trunk.float(), heads)
    chosen = ensemble_head.forward(done.online.weights, done.later.trunk.float(), heads)
    valued = ensemble_head.forward(done.target.weights, done.valued.trunk.float(), heads)
    heads_of, action = (act.values, chosen.values, valued.values), (batch.direction, batch.magnitude)
    step = (batch.returns, batch.discount, batch.weight)
    loss = ensemble_losses.ensemble_loss(*heads_of, *action, *step, pack.bootstrap, batch.index)
    d_values = _weighted(pack.signals["ensemble_weight"], loss.d_values)
    d_trunk = ensemble_head.backward(done.online.weights, act, d_values, pack.row_views["ens"])
    _enter_trunk(pack, done, "ens", d_trunk)
    return loss.value


def reconstruction(pack: Pack, done: Forwarded, best: C51Loss) -> torch.Tensor:
    """Row and loss `[P]` of the decoder that rebuilds the observation from the trunk."""
    trunk = done.act.trunk.float()
    rebuilt = decoder.forward(done.online.weights, trunk)
    loss = reconstruction_loss(rebuilt, done.act.observation)
    d_rebuilt = _weighted(pack.signals["reconstruction_weight"], loss.d_values)
    d_trunk = decoder.backward(done.online.weights, trunk, d_rebuilt, pack.row_views["rec"])
    _enter_trunk(pack, done, "rec", d_trunk)
    return loss.value


BACKWARD = {"iqn": iqn, "ens": ensemble, "rec": reconstruction}  # besides c51, which always runs
