"""How much memory a trial takes, from its configuration alone: what a sweep asks before it starts anything.

A formula from shapes and no trial run: kernels do not run on tensors without memory, and a real iteration would have to
compile them in the process that only plans. What a member holds is exact; activations follow `trainer.moments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trainer.components import list_components, rows_of
from trainer.config import ArmConfig, Feature, TrialSpec
from trainer.moments import Member, epoch_end, iteration
from trainer.params import MAIN, SLICES, TARGETS, make_layout
from trainer.signals import COUNTERS, GEM_SLOTS, SLOTS, Signals

if TYPE_CHECKING:
    from trainer.data.table import MarketTable

FLOAT, LONG, HALF = 4, 8, 2  # bytes
PLACE_BYTES, WALK_BYTES, BAR_BYTES = 17, 48, 25  # of the replay, of a market walk, of a bar besides its features
WATCHED, LOSSES = 5, 5  # fields of `trainer.watchdog`, losses of `trainer.measurement`
PROCESS_BYTES = 600_000_000  # interpreter, libraries, compiled kernels, and what the heap keeps of them
CUDA_BYTES = 600_000_000  # context and kernels
WORKSPACE_BYTES = 2 * 32 * 2**20  # of cuBLAS on Hopper, for eager launches and for the graphs
GRAPHS = 2  # plain and with diagnostics; the blocks that one leaves in their pool do not fit the other (measured)


@dataclass(frozen=True)
class Bars:
    """Sizes of the data. `starts`: train bars of the longest fold; `decisions`: bars of the longest span that is
    walked, all symbols together."""

    rows: int
    features: int
    folds: int
    starts: int
    decisions: int


@dataclass(frozen=True)
class Memory:
    """Bytes that one trial takes on its device, or of main memory on a CPU.

    state: what the pack holds from its first update to its last, tables of the market included. iteration, epoch_end:
    the most tensors that are alive beside it at one moment, in an iteration and between two epochs. checkpoint: its
    file while it is written, 0 on CUDA, where it stands in main memory. graphs: the private pool of the captured
    iterations, 0 without them. fixed: libraries, kernels, CUDA context.
    """

    state: int
    iteration: int
    epoch_end: int
    checkpoint: int
    graphs: int
    fixed: int

    @property
    def tensors(self) -> int:
        """The most that tensors take at once: what torch allocates on CUDA, but for the workspaces of its libraries."""
        return self.state + max(self.iteration, self.epoch_end)

    @property
    def working(self) -> int:
        """The most that is alive at once besides the state; what captured graphs keep is not part of it."""
        return max(self.iteration, self.epoch_end, self.checkpoint)

    @property
    def total(self) -> int:
        return self.state + self.working + self.graphs + self.fixed


def pack_bytes(spec: TrialSpec, bars: Bars) -> Memory:
    """What the trial `spec` takes on `spec.machine.device`. Linear in the members, but for the tables and `fixed`.

    A user's gem counts like a built-in one; what its `forward` keeps for autograd is not known here.
    """
    member, members = _member(spec, bars), len(spec.members)
    updating, between = (FLOAT * members * max(found(member).values()) for found in (iteration, epoch_end))
    low = make_layout(member.observation, spec.trainer).used(MAIN) if spec.machine.precision == "bf16" else 0
    state = members * (_member_bytes(member) + 2 * HALF * low) + _table_bytes(bars)  # low: copies of both networks
    cuda = spec.machine.device.startswith("cuda")
    saved = 0 if cuda else 2 * members * _saved_bytes(member)  # as bytes, and once more to put the checksum in
    fixed = CUDA_BYTES + WORKSPACE_BYTES if cuda else PROCESS_BYTES
    return Memory(state, updating, between, saved, GRAPHS * updating if cuda and spec.machine.capture else 0, fixed)


def bars_of(table: MarketTable) -> Bars:
    """Sizes of a table that is at hand."""
    spans = [[table.rows(s, span) for s in range(len(table.symbols))] for f in table.folds for span in f.spans.values()]
    longest = max(max(stop - start - 1 for start, stop in rows) for rows in spans) * len(table.symbols)
    starts = [[table.rows(s, f.spans["train"]) for s in range(len(table.symbols))] for f in table.folds]
    linked = [sum(int(table.linked[a : b - 1].sum()) for a, b in rows) for rows in starts]
    return Bars(len(table.features), table.features.shape[1], len(table.folds), max(linked), longest)


def bars_of_plan(plan: Mapping[str, Any]) -> Bars:
    """The same from a stored plan, at most a little more: as if every symbol had a bar at every time."""
    from trainer.data.features import FEATURES

    symbols, lengths = len(plan["data"]["symbols"]), {"train": 0, "validation": 0, "judge": 0}
    for span in plan["folds"]:
        lengths[span["span"]] = max(lengths[span["span"]], span["stop"] - span["start"])
    rows, folds = plan["holdout"]["stop"], len({span["fold"] for span in plan["folds"]})
    return Bars(rows * symbols, len(FEATURES), folds, lengths["train"] * symbols, max(lengths.values()) * symbols)


def _member(spec: TrialSpec, bars: Bars) -> Member:
    names = {member.arm for member in spec.members}
    used = [arm for arm in spec.arms if arm.name in names]
    gems = {gem for arm in used for gem in arm.gems}
    return Member(spec.trainer, _features(spec, used), len(gems), bars.features + TARGETS, bars.decisions * TARGETS)


def _features(spec: TrialSpec, arms: list[ArmConfig]) -> frozenset[Feature]:
    signals = Signals(len(arms), (), torch.device("cpu"))
    signals.write_config(spec.trainer)
    signals.write_features(arms)
    return signals.features_on()


def _member_bytes(m: Member) -> int:
    """What one member holds: buffers of parameters, the places of its replay, its rows of the small tables."""
    components, trainer = list_components((), m.features), m.trainer
    buffers = 5 + len(rows_of(components)) + m.gems + _snapshots(m)  # two networks, two moments, gradient, sources
    masks = trainer.replay_capacity * trainer.ensemble.heads if "ensemble_kl" in m.features else 0
    vectors = 2 * FLOAT * sum(trainer.network.trunk) + ("spectral_norm" in m.features)  # singular, of both networks
    own = FLOAT * trainer.network.atoms + 7 * LONG + WALK_BYTES * trainer.environments  # seed, fold, five costs
    small = _slots(m) + _sums(m, len(components) + m.gems)
    return FLOAT * buffers * m.parameters + _replay(m) + masks + vectors + own + small


def _snapshots(m: Member) -> int:
    """The ring and the best."""
    return m.trainer.distillation.ring + 1 if "distillation" in m.features else 0


def _replay(m: Member) -> int:
    return m.trainer.replay_capacity * PLACE_BYTES + FLOAT


def _slots(m: Member) -> int:
    """Signals, which gems are active, counters, Q-gap and epoch of the snapshots."""
    ring = _snapshots(m) and m.trainer.distillation.ring
    return FLOAT * (len(SLOTS) + m.gems * (len(GEM_SLOTS) + 1)) + LONG * len(COUNTERS) + ring * (FLOAT + LONG)


def _sums(m: Member, components: int) -> int:
    """`measurement.Measurements` and `watchdog.Watch`."""
    sums = LOSSES + components * (len(SLICES) + 2) + m.gems + 4
    return FLOAT * (sums + 2 * WATCHED + 1) + LONG * (components + WATCHED + 1)


def _saved_bytes(m: Member) -> int:
    """What of one member a checkpoint holds: two networks, two moments, snapshots, the replay."""
    return (4 + _snapshots(m)) * FLOAT * m.parameters + _replay(m)


def _table_bytes(bars: Bars) -> int:
    """What all members share: bars, one-hot targets, where walks may start. Indices of slots are left out."""
    starts = bars.folds * (2 * bars.starts + 1) * LONG
    return bars.rows * (FLOAT * bars.features + BAR_BYTES) + FLOAT * TARGETS**2 + starts
