"""The packed branching dueling network: forward, and the explicit backward that writes one component's gradient row.

Packed means that axis 0 of every tensor is the member. Dueling (Wang et al. 2016, arXiv 1511.06581) is applied to the
logits of each atom before the softmax, as Rainbow does (arXiv 1710.02298); branching follows Tavakoli et al. 2018
(arXiv 1711.08946): one value stream shared by a direction and a magnitude branch.

Backward is written out so that every source of gradient can be measured on its own at the cost of one backward. Float64
autograd is its oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import torch

import numba_kernels as nk
from trainer.dense import Weights, linear, product, relu_layer, store, store_hidden
from trainer.params import ALIGN, HEADS, MAIN, OUTPUTS, ParamLayout

# Which parameter slices a gradient entering at an activation can reach: what is not listed is a structural zero.
REACH = {
    "trunk": ("trunk",),
    "value_hidden": ("trunk", "value", "noise"),
    "direction_hidden": ("trunk", "direction", "noise"),
    "magnitude_hidden": ("trunk", "magnitude", "noise"),
    "direction_logits": ("trunk", "value", "direction", "noise"),
    "magnitude_logits": ("trunk", "value", "magnitude", "noise"),
    "prediction": ("trunk", "predictive"),
}


@dataclass(frozen=True)
class SpectralNorm:
    """w_s2 / sigma (Miyato et al. 2018, arXiv 1802.05957; on one layer of a DQN: Gogianu et al. 2021, 2105.05246).

    `left` [P, 1, rows] and `right` [P, 1, columns] are the singular vectors of the power iteration, constants for the
    gradient; `sigma` [P, 1, 1] = left' w_s2 right'. `on` bool [P, 1, 1]: where it is False the weights stay raw.
    """

    left: torch.Tensor
    right: torch.Tensor
    sigma: torch.Tensor
    on: torch.Tensor

    def apply(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / self.sigma.masked_fill(~self.on, 1.0)

    def gradient(self, weight: torch.Tensor, effective: torch.Tensor) -> torch.Tensor:
        """d loss / d weight from d loss / d (weight / sigma), through sigma as well."""
        inner = (effective * weight).sum((1, 2), keepdim=True) / self.sigma
        through = (effective - inner * self.outer) / self.sigma
        return torch.where(self.on, through, effective)

    @cached_property
    def outer(self) -> torch.Tensor:
        """d sigma / d weight `[P, rows, columns]`; every source of an update needs it."""
        return self.left.transpose(1, 2) * self.right


@dataclass(frozen=True)
class Activations:
    """What one forward over `[P, B, observation]` leaves behind, in the precision of its products.

    `streams` `[P, B, W]` holds the outputs of the three heads side by side, before their biases, each padded to a
    multiple of 32 columns; `offset` float32 `[P, 6, atoms]` is what the biases add to the logits of each action.
    `operands` are the tensors that the products took: with the spectral norm applied, perhaps in bfloat16.
    """

    operands: Weights
    observation: torch.Tensor  # float32
    entered: torch.Tensor  # the observation as the products took it
    first: torch.Tensor
    trunk: torch.Tensor
    value_hidden: torch.Tensor
    direction_hidden: torch.Tensor
    magnitude_hidden: torch.Tensor
    streams: torch.Tensor
    offset: torch.Tensor

    def samples(self, part: slice) -> Activations:
        """Views of some of the samples."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return Activations(**{n: x if n in ("operands", "offset") else x[:, part] for n, x in own.items()})

    @cached_property
    def direction_logits(self) -> torch.Tensor:
        """`[P, B, 3, atoms]`."""
        return self._logits("direction", self.offset[:, :3])

    @cached_property
    def magnitude_logits(self) -> torch.Tensor:
        """`[P, B, 3, atoms]`."""
        return self._logits("magnitude", self.offset[:, 3:])

    def _logits(self, branch: str, offset: torch.Tensor) -> torch.Tensor:
        atoms = offset.shape[2]
        start = columns_of(atoms)[branch].start
        advantage = self.streams[..., start : start + 3 * atoms].float().unflatten(-1, (3, atoms))
        value = self.streams[..., None, :atoms].float()
        return value - advantage.mean(2, keepdim=True) + advantage + offset.unsqueeze(1)


def columns_of(atoms: int) -> dict[str, slice]:
    """Where the outputs of each head stand in the streams, padding included."""
    places, start = {}, 0
    for head, actions in HEADS.items():
        width = -(-actions * atoms // ALIGN) * ALIGN
        places[head] = slice(start, start + width)
        start += width
    return places


def padded(view: torch.Tensor) -> torch.Tensor:
    """A matrix of the flat buffer with its padding columns, which are 0: the shapes that matrix units like."""
    return view.as_strided((*view.shape[:2], view.stride(1)), view.stride(), view.storage_offset())


def action_offsets(w: Weights) -> torch.Tensor:
    """`[P, 6, atoms]`: the dueling sum of the heads' biases."""
    value, direction, magnitude = (w[f"b_{head[0]}2"].squeeze(1) for head in HEADS)
    out = value.new_empty(len(value), OUTPUTS, value.shape[1])
    nk.action_offsets(value, direction, magnitude, out)
    return out


def low_operands(flat: torch.Tensor, layout: ParamLayout, w: Weights, norm: SpectralNorm | None) -> Weights:
    """What products take in bfloat16: views of the copies `flat` `[P, n]`, but for what is not the parameter itself.

    That is what `w` holds perturbed, and the layer that `norm` divides.
    """
    low = layout.views(flat, MAIN)
    for name in low:
        if f"noise_{name}" in w:
            low[name] = w[name].to(torch.bfloat16)
    return low | ({"w_s2": norm.apply(w["w_s2"]).to(torch.bfloat16)} if norm else {})


def forward(
    w: Weights, norm: SpectralNorm | None, observation: torch.Tensor, low: Weights | None = None
) -> Activations:
    """What the network makes of float32 `[P, B, observation]`; `norm` None: no member normalises its trunk.

    `low`, of `low_operands`: products and what they leave in bfloat16, each sum still in float32.
    """
    m = low if low is not None else w | {"w_s2": norm.apply(w["w_s2"])} if norm else w
    entered = observation.to(m["w_s1"].dtype)
    first = relu_layer(entered, m["w_s1"], m["b_s1"])
    trunk = relu_layer(first, m["w_s2"], m["b_s2"])
    hidden, columns = {}, columns_of(w["w_v2"].shape[2])
    streams = first.new_empty(*first.shape[:2], columns["magnitude"].stop)
    for head, place in columns.items():
        letter = head[0]
        hidden[head] = relu_layer(trunk, m[f"w_{letter}1"], m[f"b_{letter}1"])
        product(streams[..., place], hidden[head], padded(m[f"w_{letter}2"]))
    hiddens = (hidden["value"], hidden["direction"], hidden["magnitude"])
    return Activations(m, observation, entered, first, trunk, *hiddens, streams, action_offsets(w))


def atoms_of(support: torch.Tensor) -> torch.Tensor:
    """`[atoms]` or one row a member `[P, atoms]`, shaped to multiply `[P, B, actions, atoms]`."""
    return support.view(-1, 1, 1, support.shape[-1])


def action_values(logits: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """Expected return `[P, B, actions]` of categorical distributions; `support` `[atoms]` or `[P, atoms]`."""
    return (torch.softmax(logits, -1) * atoms_of(support)).sum(-1)


def valued(logits: torch.Tensor, support: torch.Tensor) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """Action values, and the map from d loss / d action values to d loss / d logits: p_i (z_i - q) dq."""
    p, atoms = torch.softmax(logits, -1), atoms_of(support)
    q = (p * atoms).sum(-1)
    return q, lambda d_values: p * (atoms - q.unsqueeze(-1)) * d_values.unsqueeze(-1)


def logits_gradient(logits: torch.Tensor, support: torch.Tensor, d_values: torch.Tensor) -> torch.Tensor:
    """d loss / d logits from d loss / d action values."""
    return valued(logits, support)[1](d_values)


def predict(w: Weights, trunk: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Next trunk features `[P, B, trunk]` expected after choosing `target` (one-hot `[P, B, 7]`) in `trunk`."""
    return linear(torch.cat((trunk, target), -1), w["w_p"], w["b_p"])


def _head_backward(
    w: Weights, act: Activations, head: str, d_streams: torch.Tensor | None, d_hidden: torch.Tensor | None, out: Weights
) -> torch.Tensor:
    """Write one head's gradients; returns d loss / d (its hidden layer before the ReLU)."""
    letter, hidden = head[0], getattr(act, f"{head}_hidden")
    if d_streams is not None:
        place = columns_of(w["w_v2"].shape[2])[head]
        d_out = d_streams[..., place]
        product(padded(out[f"w_{letter}2"]), hidden.transpose(1, 2), d_out)
        nk.bias_gradient(d_streams, place.start, out[f"b_{letter}2"].squeeze(1))
        through = torch.bmm(d_out, padded(act.operands[f"w_{letter}2"]).transpose(1, 2))
        d_hidden = through if d_hidden is None else d_hidden + through
    assert d_hidden is not None
    store_hidden(out, f"{letter}1", act.trunk, hidden, d_hidden)
    for name in (f"w_{letter}1", f"b_{letter}1"):
        if f"noise_{name}" in w:  # w = mu + sigma * noise, so the gradient of sigma is that of w times the noise
            torch.mul(out[name], w[f"noise_{name}"], out=out[f"sigma_{name}"])
    return d_hidden


def stream_gradients(act: Activations, d: dict[str, torch.Tensor]) -> tuple[torch.Tensor | None, tuple[str, ...]]:
    """d loss / d streams from that of the logits, undoing the dueling sum, and the heads it reaches."""
    found = [branch for branch in ("direction", "magnitude") if f"{branch}_logits" in d]
    if not found:
        return None, ()
    columns = columns_of(act.offset.shape[2])
    out = torch.zeros(act.streams.shape, device=act.streams.device)
    for branch in found:
        logits = d[f"{branch}_logits"]
        advantage = (logits - logits.mean(2, keepdim=True)).flatten(2)
        start = columns[branch].start
        out[..., start : start + advantage.shape[2]] = advantage
        out[..., : logits.shape[3]] += logits.sum(2)
    return out.to(act.streams.dtype), ("value", *found)


def backward(
    w: Weights,
    norm: SpectralNorm | None,
    act: Activations,
    d: dict[str, torch.Tensor],
    out: Weights,
    target: torch.Tensor | None = None,
) -> None:
    """Write the gradient of one component over the views `out` of its row, zero where it never reaches.

    `d` maps activation names (the keys of `REACH`, or "streams" for those of all three heads) to d loss / d activation,
    float32 and contiguous; the masks of the ReLUs are applied to it in place. Tensors that no path reaches keep their
    zeros. `target` is the one-hot input of `predict`, needed when `d` has "prediction".
    """
    d_streams, heads = (d["streams"], tuple(HEADS)) if "streams" in d else stream_gradients(act, d)
    d_trunk = _narrowed(d.get("trunk"), act)
    for head in HEADS:
        outputs, d_hidden = d_streams if head in heads else None, _narrowed(d.get(f"{head}_hidden"), act)
        if outputs is None and d_hidden is None:
            continue
        d_hidden = _head_backward(w, act, head, outputs, d_hidden, out)
        d_trunk = _accumulate(d_trunk, d_hidden, act.operands[f"w_{head[0]}1"].transpose(1, 2))
    if "prediction" in d:
        assert target is not None
        store(out, "p", torch.cat((act.trunk.float(), target), -1), d["prediction"])
        entering = torch.bmm(d["prediction"], w["w_p"][:, : act.trunk.shape[-1]].transpose(1, 2))
        d_trunk = _narrowed(entering if d_trunk is None else d_trunk + entering, act)
    if d_trunk is not None:
        _trunk_backward(w, norm, act, d_trunk, out)


def _narrowed(gradient: torch.Tensor | None, act: Activations) -> torch.Tensor | None:
    """What enters at an activation, in the precision of the products that carry it on."""
    return None if gradient is None else gradient.to(act.trunk.dtype)


def _accumulate(total: torch.Tensor | None, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """total + a @ b, in place where there is a total."""
    return torch.bmm(a, b) if total is None else total.baddbmm_(a, b)


def _trunk_backward(
    w: Weights, norm: SpectralNorm | None, act: Activations, d_trunk: torch.Tensor, out: Weights
) -> None:
    first = act.first.transpose(1, 2)
    nk.relu_gradient(d_trunk, act.trunk, out["b_s2"].squeeze(1))
    if norm is None:
        product(out["w_s2"], first, d_trunk)
    else:
        effective = torch.empty(w["w_s2"].shape, device=d_trunk.device)
        product(effective, first, d_trunk)
        out["w_s2"].copy_(norm.gradient(w["w_s2"], effective))
    d_first = torch.bmm(d_trunk, act.operands["w_s2"].transpose(1, 2))
    store_hidden(out, "s1", act.entered, act.first, d_first)
