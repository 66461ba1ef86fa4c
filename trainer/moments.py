"""The moments of a trial at which most activations are alive, and how many float32 values a member then holds.

Every term is the shape of tensors that the named function of the trainer keeps. `tests/trainer/test_memory.py` holds
each moment against the tensors that are alive in a real pack. Float32 is assumed: `precision = "bf16"` takes less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trainer.config import Feature, TrainerConfig
from trainer.params import ALIGN, HEADS, OUTPUTS, TARGETS, make_layout

PROBE_STATES, CHUNK_STATES = 512 * TARGETS, 4096  # of `trainer.probe` and `trainer.evaluate`
TRANSITION = 32  # a sampled transition with its actions, weights and priorities, int64 counted twice
BOTH = len(HEADS) - 1  # branches


@dataclass(frozen=True)
class Member:
    """One member's sizes. `states`: (bar, last target) states of the longest span that is evaluated."""

    trainer: TrainerConfig
    features: frozenset[Feature]
    gems: int
    observation: int
    states: int

    @cached_property
    def parameters(self) -> int:
        """Of one flat buffer, padding included."""
        return make_layout(self.observation, self.trainer).total

    @property
    def batch(self) -> int:
        return self.trainer.batch_size

    @property
    def streams(self) -> int:
        """Outputs of the three heads of one sample, padding included."""
        return sum(-(-actions * self.trainer.network.atoms // ALIGN) * ALIGN for actions in HEADS.values())

    @property
    def logits(self) -> int:
        """Of both branches of one sample."""
        return OUTPUTS * self.trainer.network.atoms

    @property
    def units(self) -> int:
        """Hidden units of all ensemble heads."""
        return self.trainer.ensemble.heads * self.trainer.ensemble.hidden

    @property
    def normed(self) -> int:
        """A matrix like w_s2 where the spectral norm needs one of its own."""
        first, second = self.trainer.network.trunk
        return first * second if "spectral_norm" in self.features else 0

    def forward(self, samples: int) -> int:
        """`network.forward`: observation, two trunk layers, three hidden layers, streams."""
        network = self.trainer.network
        return samples * (self.observation + sum(network.trunk) + len(HEADS) * network.head + self.streams)

    @property
    def side(self) -> int:
        """`sources.side`: w_s2 over its norm; the noise of three layers and the layers with it."""
        noise = 2 * len(HEADS) * self.trainer.network.trunk[1] * self.trainer.network.head
        return self.normed + (noise if "noisy_nets" in self.features else 0)

    @property
    def forwarded(self) -> int:
        """`sources.Forwarded`, alive from the forwards to the end of an update, and d sigma / d w_s2."""
        shared = self.batch * self.observation  # the target network reads a view of what the online one does
        batch = self.forward(3 * self.batch) - shared + self.batch * TRANSITION
        return batch + 2 * self.side + self.normed

    @property
    def backward(self) -> int:
        """`network.backward` from the streams, at its end: gradients of a hidden layer and of both trunk layers."""
        network = self.trainer.network
        return self.batch * (network.head + sum(network.trunk)) + self.normed


def iteration(m: Member) -> dict[str, int]:
    """float32 values of one member at the moments of a plain or diagnostic iteration."""
    loss = m.forwarded + m.batch * m.streams  # with the gradient of C51 at the streams, until graph_forward ends
    seen = m.forwarded + m.batch * m.logits  # the logits, once asked for, stay with the activations
    branch = max(m.backward, m.batch * m.logits)
    found = {"walk": _walk(m), "c51": loss + m.backward}
    if "iqn" in m.features:
        found["iqn"] = loss + _iqn(m)
    if "ensemble_kl" in m.features:
        found["ens"] = loss + _ensemble(m)
    if "reconstruction" in m.features:
        found["rec"] = loss + 2 * m.batch * m.observation + m.batch * sum(m.trainer.network.trunk) + m.normed
    if "cql" in m.features:
        found["cql"] = loss + m.backward
    if m.gems:  # activations at t + 1 with logits and prediction, gradients of both branches, half a row
        later = m.forward(m.batch) + 2 * m.batch * m.logits + m.batch * m.trainer.network.trunk[1]
        found["gems"] = seen + later + m.parameters + m.batch * m.streams + branch
    if "prioritised_replay" in m.features:
        ring = m.trainer.replay_capacity  # masses in float64 and int64; later largest, merged and where, 9 bytes
        found["sample"] = ring * 17 // 4
        found["priorities"] = (seen if m.gems else m.forwarded) + ring * 9 // 4
    return found


def _walk(m: Member) -> int:
    walks, heads = m.trainer.environments, m.trainer.ensemble.heads
    ensemble = m.units + 2 * OUTPUTS * heads if "ensemble_kl" in m.features else 0
    return m.side + m.forward(walks) + walks * (2 * m.logits + ensemble)


def _iqn(m: Member) -> int:
    """Both forwards of the quantile head; then its backward at the gradient of the embedding."""
    network, quantiles = m.trainer.network, m.trainer.iqn.quantiles
    width, levels = network.trunk[1], m.batch * quantiles
    forwards = 2 * levels * (m.trainer.iqn.cosines + 2 * width + network.head + OUTPUTS)
    return forwards + levels * (width + network.head + 2 * OUTPUTS) + m.batch * width


def _ensemble(m: Member) -> int:
    """Three forwards of the heads, the loss and the gradient of their values, then one of two ends."""
    heads, network = m.trainer.ensemble.heads, m.trainer.network
    kept = m.batch * (3 * (m.units + OUTPUTS * heads) + (OUTPUTS + 1) * heads + network.trunk[1])
    own = m.batch * (3 * m.units - network.trunk[1])  # copies with the head first, before the trunk's gradient
    return kept + max(own, m.batch * network.trunk[0] + m.normed)


def epoch_end(m: Member) -> dict[str, int]:
    """float32 values of one member at the moments between two epochs."""
    found = {"probe": _probe(m), "evaluate": _evaluate(m)}
    if "distillation" in m.features:
        found["offer"] = m.trainer.distillation.ring * m.parameters  # a ring beside the one that it replaces
    return found


def _probe(m: Member) -> int:
    """Logits and probabilities of both branches; then a layer's absolute values, or what the heads disagree about."""
    heads = m.trainer.ensemble.heads
    ensemble = m.units + max(m.units, OUTPUTS * heads) if "ensemble_kl" in m.features else 0  # a copy by head
    last = max(*m.trainer.network.trunk, m.logits // BOTH, ensemble)
    return m.normed + m.forward(PROBE_STATES) + PROBE_STATES * (2 * m.logits + last + 4)


def _evaluate(m: Member) -> int:
    """A chunk with logits, probabilities and their products; rows and choices of all states, in 9 bytes each."""
    chunk = min(CHUNK_STATES, m.states)
    return m.normed + m.forward(chunk) + 2 * chunk * m.logits + m.states * 9 // 4
