"""A pack: the P members of a trial as tensors with the member on axis 0, and the tables that they share."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer import draws, spectral
from trainer.components import DERIVED, Component, list_components, rows_of
from trainer.config import ArmConfig, Feature, TrialSpec
from trainer.data.table import MarketTable
from trainer.dense import Weights
from trainer.draws import Draws
from trainer.gems.contract import Gem
from trainer.gems.registry import component_name, load_gems
from trainer.losses.c51 import make_support
from trainer.market import Market, TrainSpans, Walks, cost_row, make_market, make_train_spans, make_walks
from trainer.measurement import Measurements, make_measurements
from trainer.network import REACH, SpectralNorm
from trainer.params import MAIN, SLICES, TARGETS, ParamLayout, initialise, make_layout
from trainer.replay import Replay, make_replay
from trainer.signals import DISTILL_SLOTS, Counters, Signals
from trainer.snapshots import Snapshots, make_snapshots
from trainer.watchdog import Watch, make_watch

START_ITERATIONS = 20  # of the power iteration, so that the first sigma is already close
MEASURE_ITERATIONS = 50


@dataclass(frozen=True)
class Learner:
    """One network's parameters `[P, total]` with its views and the vectors of its power iteration."""

    params: torch.Tensor
    weights: Weights
    left: torch.Tensor
    right: torch.Tensor
    spectral_on: torch.Tensor | None  # bool [P, 1, 1]; None when no member normalises
    low: torch.Tensor  # bfloat16 [P, n], the first parameters as products take them; n is 0 where they take float32

    def refresh(self) -> None:
        """Bring `low` to the parameters after a change that is not the optimiser's, which keeps it so itself."""
        self.low.copy_(self.params[:, : self.low.shape[1]])

    def norm(self) -> SpectralNorm | None:
        """What divides w_s2, from the present singular vectors; None when no member normalises."""
        if self.spectral_on is None:
            return None
        return spectral.estimate(self.weights["w_s2"], self.left, self.right, self.spectral_on)

    def sigma(self) -> torch.Tensor:
        """Largest singular value of the raw w_s2 `[P]`, whether it divides or not: from a start of its own, so that a
        member is measured alike in any company."""
        weight = self.weights["w_s2"]
        left, right = torch.full_like(self.left, weight.shape[1] ** -0.5), torch.zeros_like(self.right)
        for _ in range(MEASURE_ITERATIONS):
            spectral.iterate(weight, left, right)
        everyone = torch.ones_like(left[:, :, :1], dtype=torch.bool)
        return spectral.estimate(weight, left, right, everyone).sigma.flatten()

    def iterate(self, alive: torch.Tensor | None = None) -> None:
        """One power iteration of the members that are `alive` (bool `[P]`), of all by default."""
        spectral.iterate(self.weights["w_s2"], self.left, self.right, alive)


@dataclass(frozen=True)
class Pack:
    """Everything a step reads and writes. The dataclass is frozen; the tensors in it are updated in place."""

    spec: TrialSpec
    table: MarketTable
    layout: ParamLayout
    starts: torch.Tensor  # int64 [slices + 1], none beyond `used`
    used: int  # parameters from the start of a row that some member may train; nothing touches the rest
    market: Market
    spans: TrainSpans
    draws: Draws
    support: torch.Tensor
    gems: tuple[Gem, ...]
    gem_active: dict[str, torch.Tensor]  # int32 [P] by gem name: 0 where it is off
    wired: frozenset[str]  # gems that some member has wired: they run on every update
    features: frozenset[Feature]  # that some member uses
    components: tuple[Component, ...]
    row_names: tuple[str, ...]  # components with a row in `rows`
    backward_sources: tuple[str, ...]  # components that `graph_forward` adds besides C51
    signals: Signals
    counters: Counters
    distill_slots: torch.Tensor  # int64 [4], where the distillation kernel reads its scalars
    online: Learner
    target: Learner
    first_moment: torch.Tensor
    second_moment: torch.Tensor
    gradient: torch.Tensor  # float32 [P, total], what the optimiser is given
    rows: torch.Tensor  # float32 [row names, P, total], gradient of each component
    row_views: dict[str, Weights]
    walks: Walks
    replay: Replay
    bootstrap: torch.Tensor  # bool [P, replay places, heads]: which places an ensemble head learns from
    snapshots: Snapshots | None  # None when no member distils
    watch: Watch
    measurements: Measurements

    @property
    def size(self) -> int:
        return len(self.spec.members)

    @property
    def device(self) -> torch.device:
        return self.online.params.device

    def row(self, component: str) -> torch.Tensor:
        """Gradient buffer `[P, total]` of one component."""
        return self.rows[self.row_names.index(component)]

    def component(self, name: str) -> Component:
        return next(c for c in self.components if c.name == name)


def state(pack: Pack) -> dict[str, torch.Tensor]:
    """All tensors that a continuation needs, by name; the same storage that training uses."""
    named = {"signals": pack.signals.table, "counters": pack.counters.table}
    named |= {"adam/first": pack.first_moment, "adam/second": pack.second_moment, "support": pack.support}
    named |= pack.snapshots.tensors() if pack.snapshots else {}
    for name, learner in (("online", pack.online), ("target", pack.target)):
        named |= {f"{name}/params": learner.params, f"{name}/left": learner.left, f"{name}/right": learner.right}
    return named | pack.walks.tensors() | pack.replay.tensors() | pack.watch.tensors()


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
    for learner in (pack.online, pack.target):
        learner.refresh()


def build_pack(spec: TrialSpec, table: MarketTable) -> Pack:
    """Fresh members of `spec` on `spec.machine.device`: initial weights, empty replay, walks not yet started."""
    trainer, device, members = spec.trainer, torch.device(spec.machine.device), len(spec.members)
    layout = make_layout(table.features.shape[1] + TARGETS, trainer)
    arms = {arm.name: arm for arm in spec.arms}
    member_arms, folds = [arms[m.arm] for m in spec.members], [m.fold for m in spec.members]
    references = tuple(dict.fromkeys(reference for arm in member_arms for reference in arm.gems))
    gems = load_gems(references)
    names = {gem.name: gem.reference for gem in gems}
    signals = _fresh_signals(spec, table, gems, member_arms)
    features = signals.features_on()
    components = list_components(tuple(gem_component(gem) for gem in gems), features)
    row_names = rows_of(components)
    used = layout.used(_trained(components, features))
    draw = Draws([m.seed for m in spec.members], device)
    low = layout.used(MAIN) if spec.machine.precision == "bf16" else 0
    online = _fresh_learner(layout, draw, trainer.network.noise_sigma, signals["spectral_norm"], low)
    rows = torch.zeros(len(row_names), members, layout.total, device=device)
    support = make_support(trainer.network.v_max, trainer.network.atoms, device)
    return Pack(
        spec=spec,
        table=table,
        layout=layout,
        starts=layout.slice_starts(device).clamp_(max=used),
        used=used,
        market=make_market(table, trainer.market, members, device),
        spans=make_train_spans(table, folds, device),
        draws=draw,
        support=support.repeat(members, 1),
        gems=gems,
        gem_active={name: _active(member_arms, ref, device) for name, ref in names.items()},
        wired=frozenset(n for n, ref in names.items() if any(_mode(arm, ref) == "wired" for arm in member_arms)),
        features=features,
        components=components,
        row_names=row_names,
        backward_sources=tuple(c.name for c in components if c.phase == "graph_forward" and c.name not in DERIVED),
        signals=signals,
        counters=Counters(members, device),
        distill_slots=signals.places(DISTILL_SLOTS),
        online=online,
        target=_copy_learner(layout, online),
        first_moment=torch.zeros_like(online.params),
        second_moment=torch.zeros_like(online.params),
        gradient=torch.zeros_like(online.params),
        rows=rows,
        row_views={name: layout.views(rows[i]) for i, name in enumerate(row_names)},
        walks=make_walks(members, trainer.environments, device),
        replay=make_replay(members, trainer.replay_capacity, trainer.environments, device),
        bootstrap=_bootstrap(spec, draw, features),
        snapshots=make_snapshots(trainer.distillation.ring, online.params) if "distillation" in features else None,
        watch=make_watch(len(components), signals),
        measurements=make_measurements(len(components), members, len(gems), device),
    )


def reset_pack(pack: Pack) -> None:
    """Fill the pack in place with fresh members of its spec, to the bit as `build_pack` would.

    For a spec that differs from the one it was built for in nothing that a captured step has baked in.
    """
    spec, arms, device = pack.spec, {arm.name: arm for arm in pack.spec.arms}, pack.device
    member_arms = [arms[m.arm] for m in spec.members]
    pack.signals.table.copy_(_fresh_signals(spec, pack.table, pack.gems, member_arms).table)
    pack.counters.table.copy_(Counters(pack.size, device).table)
    pack.draws.keys.copy_(torch.tensor([m.seed for m in spec.members]))
    pack.spans.fold.copy_(torch.tensor([m.fold for m in spec.members]))
    pack.market.costs.copy_(torch.tensor([cost_row(spec.trainer.market)], dtype=torch.float64))
    support = make_support(spec.trainer.network.v_max, spec.trainer.network.atoms, device)
    pack.support.copy_(support.expand_as(pack.support))
    _begin_learner(pack.layout, pack.draws, spec.trainer.network.noise_sigma, pack.online)
    for mine, theirs in ((pack.target.params, pack.online.params), (pack.target.left, pack.online.left)):
        mine.copy_(theirs)
    pack.target.right.copy_(pack.online.right)
    pack.target.refresh()
    for tensor in (pack.first_moment, pack.second_moment, pack.gradient, pack.rows):
        tensor.zero_()
    for tensor in (pack.walks.tensors() | pack.replay.fields).values():
        tensor.zero_()
    pack.replay.max_priority.fill_(1.0)
    pack.bootstrap.copy_(_bootstrap(spec, pack.draws, pack.features))
    if pack.snapshots is not None:
        pack.snapshots.clear(pack.online.params)
    watch = make_watch(len(pack.components), pack.signals).tensors()
    for name, tensor in pack.watch.tensors().items():
        tensor.copy_(watch[name])
    pack.measurements.clear()


def _fresh_signals(spec: TrialSpec, table: MarketTable, gems: tuple[Gem, ...], arms: list[ArmConfig]) -> Signals:
    """The configuration in every member's row, then what its arm changes."""
    signals = Signals(len(arms), tuple(gem.name for gem in gems), torch.device(spec.machine.device))
    signals.write_config(spec.trainer)
    signals.write_features(arms)
    for gem in gems:
        signals.write_gem(gem.name, [arm.gems.get(gem.reference) for arm in arms], gem.coefficient)
    scales = [1.0 / table.train_volatility(member.fold) for member in spec.members]
    signals["reward_scale"].copy_(torch.tensor(scales))
    return signals


def _bootstrap(spec: TrialSpec, draw: Draws, features: frozenset[Feature]) -> torch.Tensor:
    """Each head keeps its own random share of the places of the replay, so that the heads see different data.

    Osband et al. 2016, arXiv 1602.04621, with Bernoulli masks; a place keeps its mask when it is written over.
    """
    ensemble, members, device = spec.trainer.ensemble, len(draw.keys), draw.keys.device
    if "ensemble_kl" not in features:
        return torch.zeros(members, 0, ensemble.heads, dtype=torch.bool, device=device)
    uniform = draw.once(draws.BOOTSTRAP, spec.trainer.replay_capacity, ensemble.heads)
    return uniform < ensemble.mask_probability


def _trained(components: tuple[Component, ...], features: frozenset[Feature]) -> set[str]:
    """Slices that some member may train. Distillation pulls on all, but only where something has moved them."""
    reached = {part for c in components if c.name != "distill" for part in c.reach}
    return reached if "noisy_nets" in features else reached - {"noise"}


def _mode(arm, reference: str) -> str:
    return arm.gems[reference].mode if reference in arm.gems else "off"


def _active(arms: list, reference: str, device: torch.device) -> torch.Tensor:
    flags = [_mode(arm, reference) != "off" for arm in arms]
    return torch.tensor(flags, dtype=torch.int32, device=device)


def gem_component(gem: Gem) -> Component:
    """The gem's line of the decomposition; its reach follows from the tensors that it names."""
    entries = [name.removeprefix("next_").replace("_q", "_logits") for name in gem.inputs]
    reached = {part for entry in entries for part in REACH[entry]}
    method = "forward" if type(gem).measure is Gem.measure else "measure"
    source = f"{type(gem).__module__}:{type(gem).__qualname__}.{method}"
    reach = tuple(s for s in SLICES if s in reached)
    return Component(component_name(gem.name), reach, "aux_ops", (f"gem/{gem.name}/wired",), source)


def _fresh_learner(layout: ParamLayout, draw: Draws, sigma: float, spectral: torch.Tensor, low: int) -> Learner:
    device, members = draw.keys.device, len(draw.keys)
    params = torch.empty(members, layout.total, device=device)
    weights = layout.views(params)
    _, rows, columns = weights["w_s2"].shape
    left, right = (torch.empty(members, 1, size, device=device) for size in (rows, columns))
    on = (spectral != 0)[:, None, None] if bool((spectral != 0).any()) else None
    copy = torch.empty(members, low, dtype=torch.bfloat16, device=device)
    learner = Learner(params, weights, left, right, on, copy)
    _begin_learner(layout, draw, sigma, learner)
    return learner


def _begin_learner(layout: ParamLayout, draw: Draws, sigma: float, learner: Learner) -> None:
    """Initial weights from the members' seeds, and singular vectors that fit them."""
    initialise(layout, learner.params, sigma, lambda index, count: draw.once(draws.INITIALISE + index, count))
    learner.left.fill_(learner.left.shape[2] ** -0.5)
    learner.right.zero_()
    for _ in range(START_ITERATIONS):
        learner.iterate()
    learner.refresh()


def _copy_learner(layout: ParamLayout, source: Learner) -> Learner:
    params = source.params.clone()
    vectors = source.left.clone(), source.right.clone()
    return Learner(params, layout.views(params), *vectors, source.spectral_on, source.low.clone())
