"""P networks packed by bmm with autograd, compiled by Inductor and captured as a CUDA graph.

All state sits in flat `[P, total]` float32 buffers; Adam and Polyak are one elementwise expression over them inside the
compiled function. With "bf16" that expression also writes the bfloat16 copies that the next update's products read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch._dynamo
from shapes import FLAT, HEADS, TARGETS, Arrays, Data, Shape, flatten, pack, spans, synthetic
from shapes import unpack as unpack_arrays
from torch.nn import functional as F
from torch_member import capture, use_precision

Weights = dict[str, torch.Tensor]
Branches = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Variant:
    """One way to write the same update.

    `heads`: "plain" three products of 51, 153, 153 columns; "padded" to 64, 160, 160; "block" one product of 384
    columns with a block-diagonal matrix. `projection`: "hat" or "scatter". `mode`: of `torch.compile`, "" for eager.
    `unroll`: updates in one CUDA graph.
    """

    heads: str = "padded"
    projection: str = "hat"
    mode: str = "max-autotune-no-cudagraphs"
    unroll: int = 1

    @property
    def name(self) -> str:
        return f"{self.heads}-{self.projection}-x{self.unroll}" + ("" if self.mode else "-eager")


CHOICES = ("padded", "hat"), ("padded", "scatter"), ("block", "hat"), ("plain", "hat")
VARIANTS = tuple(Variant(*choice, unroll=4) for choice in CHOICES)


def select(logits: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """`[P, B, 3, K]` and int64 `[P, B]` -> `[P, B, K]`."""
    return logits.gather(2, action[..., None, None].expand(-1, -1, 1, logits.shape[-1])).squeeze(2)


def output_matrices(w: Weights, heads: str) -> Weights:
    """With "block" the three output layers as one block-diagonal matrix."""
    if heads != "block":
        return w
    columns = {head: w[f"w_{head}2"].shape[2] for head in HEADS}
    before, rows = 0, []
    for head, width in columns.items():
        rows.append(F.pad(w[f"w_{head}2"], (before, sum(columns.values()) - before - width)))
        before += width
    return w | {"w_o": torch.cat(rows, 1), "b_o": torch.cat([w[f"b_{head}2"] for head in HEADS], 2)}


def head_outputs(w: Weights, hidden: torch.Tensor, shape: Shape) -> list[torch.Tensor]:
    """Float32 `[P, B, actions, K]` of each head."""
    if "w_o" in w:
        widths = [w[f"w_{head}2"].shape[2] for head in HEADS]
        flat = (torch.bmm(hidden, w["w_o"]) + w["b_o"]).split(widths, 2)
    else:
        parts = zip(HEADS, hidden.split(shape.head, 2), strict=True)
        flat = tuple(torch.bmm(part, w[f"w_{head}2"]) + w[f"b_{head}2"] for head, part in parts)
    counted = zip(flat, HEADS.values(), strict=True)
    return [x[..., : actions * shape.atoms].float().unflatten(2, (actions, shape.atoms)) for x, actions in counted]


def forward(w: Weights, observation: torch.Tensor, shape: Shape) -> Branches:
    """Float32 logits `[P, B, 3, K]` of both branches; products run in the dtype of the weights."""
    x = observation.to(w["w_s1"].dtype)
    for name in ("s1", "s2", "h1"):
        x = torch.relu(torch.bmm(x, w[f"w_{name}"]) + w[f"b_{name}"])
    value, direction, magnitude = head_outputs(w, x, shape)
    direction, magnitude = (value + branch - branch.mean(2, keepdim=True) for branch in (direction, magnitude))
    return direction, magnitude


def project(p: torch.Tensor, batch: Weights, support: torch.Tensor, shape: Shape, kind: str) -> torch.Tensor:
    last = shape.atoms - 1
    shifted = batch["returns"][..., None] + batch["discount"][..., None] * support
    position = ((shifted + shape.v_max) * (1.0 / shape.spacing)).clamp(0, last)
    if kind == "hat":
        atom = torch.arange(shape.atoms, device=p.device, dtype=p.dtype)
        hat = (1.0 - (position[..., None, :] - atom[:, None]).abs()).clamp_min(0.0)
        return (hat * p[..., None, :]).sum(-1)
    lower = position.long().clamp(max=last - 1)
    upper_share = (position - lower) * p
    return torch.zeros_like(p).scatter_add(2, lower, p - upper_share).scatter_add(2, lower + 1, upper_share)


def target_distribution(online: Branches, target: Branches, support: torch.Tensor) -> torch.Tensor:
    """Mixture `[P, B, K]` of the target's branches at the online network's greedy actions."""
    greedy = [(x.softmax(-1) * support).sum(-1).argmax(-1) for x in online]
    p_direction, p_magnitude = (select(x, a).softmax(-1) for x, a in zip(target, greedy, strict=True))
    return torch.where((greedy[0] == FLAT)[..., None], p_direction, 0.5 * (p_direction + p_magnitude))


def losses(logits: Branches, m: torch.Tensor, batch: Weights) -> torch.Tensor:
    """`[P]`."""
    names = ("direction", "magnitude")
    both = [-(m * select(x, batch[k]).log_softmax(-1)).sum(-1) for x, k in zip(logits, names, strict=True)]
    return 0.5 * (both[0] + both[1].masked_fill(batch["direction"] == FLAT, 0.0)).mean(1)


def compiled(function: Callable[..., None], mode: str) -> Callable[..., None]:
    """Beyond the customary limit of 8 recompilations a further variant would run uncompiled."""
    torch._dynamo.config.recompile_limit = 64
    return torch.compile(function, mode=mode, dynamic=False, fullgraph=True)


class Packed:
    """P networks with their targets, optimiser state and replays on `device`."""

    def __init__(
        self, shape: Shape, device: torch.device, precision: str, variant: Variant, given: Data | None = None
    ) -> None:
        use_precision(precision)
        self.shape, self.device, self.variant, data = shape, device, variant, given or synthetic(shape)
        arrays = pack(shape, data.params, variant.heads != "plain")
        self.sizes = {name: value.shape[1:] for name, value in arrays.items()}
        self.places = spans(self.sizes)
        self.params = torch.from_numpy(flatten(arrays)).to(device)
        self.target, self.first, self.second = self.params.clone(), *torch.zeros_like(self.params.expand(2, -1, -1))
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        self.used = [x if kind == x.dtype else x.to(kind) for x in (self.params, self.target)]
        self.features, self.support = (torch.from_numpy(x).to(device) for x in (data.features, data.support))
        self.replay = {name: torch.from_numpy(values).to(device) for name, values in data.replay.items()}
        self.count, self.loss = torch.zeros((), device=device), torch.zeros(shape.members, device=device)
        self.update = compiled(self._update, variant.mode) if variant.mode else self._update

    def views(self, flat: torch.Tensor) -> Weights:
        return {k: flat[:, start:stop].view(-1, *self.sizes[k]) for k, (start, stop) in self.places.items()}

    def observe(self, row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        one_hot = (target[..., None] == torch.arange(TARGETS, device=self.device)).float()
        return torch.cat((self.features[row], one_hot), -1)

    def _update(self, index: torch.Tensor) -> None:
        shape, heads = self.shape, self.variant.heads
        batch = {name: field.gather(1, index) for name, field in self.replay.items()}
        batch = {name: x if x.is_floating_point() else x.long() for name, x in batch.items()}
        online, target = (self.views(x) for x in self.used)
        later = self.observe(batch["later_row"], batch["later_target"])
        seen = [forward(output_matrices(w, heads), later, shape) for w in (online, target)]
        p = target_distribution(*seen, self.support)
        m = project(p, batch, self.support, shape, self.variant.projection)
        observation = self.observe(batch["row"], batch["target"])

        def total(w: Weights) -> tuple[torch.Tensor, torch.Tensor]:
            loss = losses(forward(output_matrices(w, heads), observation, shape), m, batch)
            return loss.sum(), loss

        gradients, loss = torch.func.grad(total, has_aux=True)(online)
        self._adam(torch.cat([gradients[k].flatten(1) for k in self.sizes], 1).float())
        self.loss.copy_(loss)

    def _adam(self, gradient: torch.Tensor) -> None:
        """Clip, Adam and Polyak in place."""
        s = self.shape
        norm = gradient.square().sum(1, keepdim=True).sqrt()
        gradient = gradient * torch.where(norm > s.clip_norm, s.clip_norm / norm, 1.0)
        count = self.count + 1.0
        step, correction = s.learning_rate / (1.0 - s.beta1**count), 1.0 / (1.0 - s.beta2**count)
        first = s.beta1 * self.first + (1.0 - s.beta1) * gradient
        second = s.beta2 * self.second + (1.0 - s.beta2) * gradient * gradient
        params = self.params - step * first / ((second * correction).sqrt() + s.epsilon)
        target = self.target + s.target_rate * (params - self.target)
        state = (self.count, self.first, self.second, self.params, self.target)
        for kept, new in zip(state, (count, first, second, params, target), strict=True):
            kept.copy_(new)
        if self.used[0].dtype != self.params.dtype:
            for kept, new in zip(self.used, (params, target), strict=True):
                kept.copy_(new)

    @torch.no_grad()
    def step(self, index: torch.Tensor | None = None) -> None:
        """One update of every member; `index` int64 `[P, B]` replaces the draw."""
        size = (self.shape.members, self.shape.batch)
        self.update(torch.randint(self.shape.capacity, size, device=self.device) if index is None else index)

    def dump(self) -> Arrays:
        """The online parameters under the trainer's names."""
        return unpack_arrays(self.shape, {k: v.cpu().numpy() for k, v in self.views(self.params).items()})


def make(
    shape: Shape, device: torch.device, precision: str = "tf32", variant: Variant | None = None
) -> tuple[Callable[[], None], int]:
    """`step()` and the updates of the whole pack that one call does."""
    variant = variant or Variant()
    step = Packed(shape, device, precision, variant).step
    return (capture(step, variant.unroll), variant.unroll) if device.type == "cuda" else (step, 1)
