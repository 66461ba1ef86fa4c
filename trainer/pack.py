"""A pack: the P members of a trial as tensors with the member on axis 0, and the tables that they share."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer import draws, spectral
from trainer.components import Component, list_components
from trainer.config import TrialSpec
from trainer.data.table import MarketTable
from trainer.draws import Draws
from trainer.gems.contract import Gem
from trainer.gems.registry import load_gems
from trainer.losses.c51 import make_support
from trainer.market import Market, TrainSpans, Walks, make_market, make_train_spans, make_walks
from trainer.measurement import Measurements, make_measurements
from trainer.network import REACH, SpectralNorm, Weights
from trainer.params import TARGETS, ParamLayout, initialise, make_layout
from trainer.replay import Replay, make_replay
from trainer.signals import Counters, Signals

START_ITERATIONS = 20  # of the power iteration, so that the first sigma is already close


@dataclass(frozen=True)
class Learner:
    """One network's parameters `[P, total]` with its views and the vectors of its power iteration."""

    params: torch.Tensor
    weights: Weights
    left: torch.Tensor
    right: torch.Tensor
    spectral_on: bool

    def norm(self) -> SpectralNorm:
        return spectral.estimate(self.weights["w_s2"], self.left, self.right, self.spectral_on)

    def iterate(self) -> None:
        spectral.iterate(self.weights["w_s2"], self.left, self.right)


@dataclass(frozen=True)
class Pack:
    """Everything a step reads and writes. The dataclass is frozen; the tensors in it are updated in place."""

    spec: TrialSpec
    table: MarketTable
    layout: ParamLayout
    starts: torch.Tensor  # int64 [slices + 1]
    market: Market
    spans: TrainSpans
    draws: Draws
    support: torch.Tensor
    gems: tuple[Gem, ...]
    gem_active: dict[str, torch.Tensor]  # int32 [P] by gem name: 0 where it is off
    wired: frozenset[str]  # gems that some member has wired: they run on every update
    components: tuple[Component, ...]
    signals: Signals
    counters: Counters
    online: Learner
    target: Learner
    first_moment: torch.Tensor
    second_moment: torch.Tensor
    rows: torch.Tensor  # float32 [components, P, total], gradient of each component
    row_views: dict[str, Weights]
    walks: Walks
    replay: Replay
    measurements: Measurements

    @property
    def size(self) -> int:
        return len(self.spec.members)

    @property
    def device(self) -> torch.device:
        return self.online.params.device

    def row(self, component: str) -> torch.Tensor:
        """Gradient buffer `[P, total]` of one component."""
        return self.rows[[c.name for c in self.components].index(component)]


def state(pack: Pack) -> dict[str, torch.Tensor]:
    """All tensors that a continuation needs, by name; the same storage that training uses."""
    named = {"signals": pack.signals.table, "counters": pack.counters.table}
    named |= {"adam/first": pack.first_moment, "adam/second": pack.second_moment}
    for name, learner in (("online", pack.online), ("target", pack.target)):
        named |= {f"{name}/params": learner.params, f"{name}/left": learner.left, f"{name}/right": learner.right}
    return named | pack.walks.tensors() | pack.replay.tensors()


def load_state(pack: Pack, tensors: dict[str, torch.Tensor]) -> None:
    """Copy a stored state into the pack, in place. Another set of names or shapes is an error that says which."""
    own = state(pack)
    if own.keys() != tensors.keys():
        raise ValueError(f"the checkpoint has other tensors: {sorted(own.keys() ^ tensors.keys())}")
    for name, tensor in own.items():  # all before the first copy, so that a refusal leaves the pack as it was
        stored = tensors[name]
        if stored.shape != tensor.shape or stored.dtype != tensor.dtype:
            found = f"{tuple(stored.shape)} {stored.dtype}"
            raise ValueError(f"checkpoint tensor {name}: {found}, not {tuple(tensor.shape)} {tensor.dtype}")
    for name, tensor in own.items():
        tensor.copy_(tensors[name])


def build_pack(spec: TrialSpec, table: MarketTable) -> Pack:
    """Fresh members of `spec` on `spec.machine.device`: initial weights, empty replay, walks not yet started."""
    trainer, device, members = spec.trainer, torch.device(spec.machine.device), len(spec.members)
    layout = make_layout(table.features.shape[1] + TARGETS, trainer.network)
    arms = {arm.name: arm for arm in spec.arms}
    member_arms, folds = [arms[m.arm] for m in spec.members], [m.fold for m in spec.members]
    references = tuple(dict.fromkeys(reference for arm in member_arms for reference in arm.gems))
    gems = load_gems(references)
    names = dict(zip((gem.name for gem in gems), references, strict=True))
    signals = Signals(members, tuple(names), device)
    signals.write_config(trainer)
    for gem in gems:
        settings = [arm.gems.get(names[gem.name]) for arm in member_arms]
        signals.write_gem(gem.name, settings, gem.coefficient)
    signals["reward_scale"].copy_(torch.tensor([1.0 / table.train_volatility(fold) for fold in folds]))
    draw = Draws([m.seed for m in spec.members], device)
    components = list_components({gem.name: _gem_reach(gem) for gem in gems})
    online = _fresh_learner(layout, draw, members, trainer.network.spectral_norm)
    rows = torch.zeros(len(components), members, layout.total, device=device)
    return Pack(
        spec=spec,
        table=table,
        layout=layout,
        starts=layout.slice_starts(device),
        market=make_market(table, trainer.market, members, device),
        spans=make_train_spans(table, folds, device),
        draws=draw,
        support=make_support(trainer.network.v_max, trainer.network.atoms, device),
        gems=gems,
        gem_active={name: _active(member_arms, ref, device) for name, ref in names.items()},
        wired=frozenset(n for n, ref in names.items() if any(_mode(arm, ref) == "wired" for arm in member_arms)),
        components=components,
        signals=signals,
        counters=Counters(members, device),
        online=online,
        target=_copy_learner(layout, online),
        first_moment=torch.zeros_like(online.params),
        second_moment=torch.zeros_like(online.params),
        rows=rows,
        row_views={c.name: layout.views(rows[i]) for i, c in enumerate(components)},
        walks=make_walks(members, trainer.environments, device),
        replay=make_replay(members, trainer.replay_capacity, trainer.environments, device),
        measurements=make_measurements(len(components), members, len(gems), device),
    )


def _mode(arm, reference: str) -> str:
    return arm.gems[reference].mode if reference in arm.gems else "off"


def _active(arms: list, reference: str, device: torch.device) -> torch.Tensor:
    flags = [_mode(arm, reference) != "off" for arm in arms]
    return torch.tensor(flags, dtype=torch.int32, device=device)


def _gem_reach(gem: Gem) -> tuple[str, ...]:
    """Slices that the gem's gradient can reach, from the tensors it names."""
    entries = [name.removeprefix("next_").replace("_q", "_logits") for name in gem.inputs]
    return tuple(dict.fromkeys(part for entry in entries for part in REACH[entry]))


def _fresh_learner(layout: ParamLayout, draw: Draws, members: int, spectral_on: bool) -> Learner:
    device = draw.keys.device
    params = torch.zeros(members, layout.total, device=device)
    initialise(layout, params, lambda index, count: draw.once(draws.INITIALISE + index, count))
    weights = layout.views(params)
    _, rows, columns = weights["w_s2"].shape
    left = torch.full((members, 1, rows), rows**-0.5, device=device)
    learner = Learner(params, weights, left, torch.zeros(members, 1, columns, device=device), spectral_on)
    for _ in range(START_ITERATIONS):
        learner.iterate()
    return learner


def _copy_learner(layout: ParamLayout, source: Learner) -> Learner:
    params = source.params.clone()
    return Learner(params, layout.views(params), source.left.clone(), source.right.clone(), source.spectral_on)
