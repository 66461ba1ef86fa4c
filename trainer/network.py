"""The packed branching dueling network: forward, and the explicit backward that writes one component's gradient row.

Packed means that axis 0 of every tensor is the member. Dueling (Wang et al. 2016, arXiv 1511.06581) is applied to the
logits of each atom before the softmax, as Rainbow does (arXiv 1710.02298); branching follows Tavakoli et al. 2018
(arXiv 1711.08946): one value stream shared by a direction and a magnitude branch.

Backward is written out so that every source of gradient can be measured on its own at the cost of one backward. Float64
autograd is its oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from trainer.params import HEADS

Weights = dict[str, torch.Tensor]
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
    """What one forward over `[P, B, observation]` leaves behind; logits are `[P, B, actions, atoms]`."""

    observation: torch.Tensor
    first: torch.Tensor
    trunk: torch.Tensor
    value_hidden: torch.Tensor
    direction_hidden: torch.Tensor
    magnitude_hidden: torch.Tensor
    direction_logits: torch.Tensor
    magnitude_logits: torch.Tensor


def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.baddbmm(b, x, w)


def forward(w: Weights, norm: SpectralNorm, observation: torch.Tensor) -> Activations:
    """Logits of both branches for float `[P, B, observation]`; dtype follows the weights."""
    first = linear(observation, w["w_s1"], w["b_s1"]).relu_()
    trunk = linear(first, norm.apply(w["w_s2"]), w["b_s2"]).relu_()
    hidden, out = {}, {}
    for head, actions in HEADS.items():
        letter = head[0]
        hidden[head] = linear(trunk, w[f"w_{letter}1"], w[f"b_{letter}1"]).relu_()
        flat = linear(hidden[head], w[f"w_{letter}2"], w[f"b_{letter}2"])
        out[head] = flat.view(*flat.shape[:2], actions, -1)
    return Activations(
        observation,
        first,
        trunk,
        hidden["value"],
        hidden["direction"],
        hidden["magnitude"],
        out["value"] + out["direction"] - out["direction"].mean(2, keepdim=True),
        out["value"] + out["magnitude"] - out["magnitude"].mean(2, keepdim=True),
    )


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


def gate(gradient: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """ReLU backward by selection: an infinite gradient at a closed unit stays 0."""
    return torch.ops.aten.threshold_backward(gradient, output, 0.0)


def _store(out: Weights, name: str, x: torch.Tensor, grad: torch.Tensor) -> None:
    """Gradients of `x @ w + b` with respect to w and b."""
    out[f"w_{name}"].copy_(torch.bmm(x.transpose(1, 2), grad))
    out[f"b_{name}"].copy_(grad.sum(1, keepdim=True))


def _head_backward(
    w: Weights, act: Activations, head: str, d_out: torch.Tensor | None, d_hidden: torch.Tensor | None, out: Weights
) -> torch.Tensor:
    """Write one head's gradients and return d loss / d trunk."""
    letter, hidden = head[0], getattr(act, f"{head}_hidden")
    if d_out is not None:
        _store(out, f"{letter}2", hidden, d_out)
        through = torch.bmm(d_out, w[f"w_{letter}2"].transpose(1, 2))
        d_hidden = through if d_hidden is None else d_hidden + through
    assert d_hidden is not None
    d_hidden = gate(d_hidden, hidden)
    _store(out, f"{letter}1", act.trunk, d_hidden)
    for name in (f"w_{letter}1", f"b_{letter}1"):
        if f"noise_{name}" in w:  # w = mu + sigma * noise, so the gradient of sigma is that of w times the noise
            torch.mul(out[name], w[f"noise_{name}"], out=out[f"sigma_{name}"])
    return torch.bmm(d_hidden, w[f"w_{letter}1"].transpose(1, 2))


def _stream_gradients(d: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Undo the dueling sum: gradients of the three heads' outputs, flattened to `[P, B, actions * atoms]`."""
    outputs: dict[str, torch.Tensor] = {}
    for branch in ("direction", "magnitude"):
        logits = d.get(f"{branch}_logits")
        if logits is None:
            continue
        outputs[branch] = (logits - logits.mean(2, keepdim=True)).flatten(2)
        value = logits.sum(2)
        outputs["value"] = outputs["value"] + value if "value" in outputs else value
    return outputs


def backward(
    w: Weights,
    norm: SpectralNorm,
    act: Activations,
    d: dict[str, torch.Tensor],
    out: Weights,
    target: torch.Tensor | None = None,
) -> None:
    """Write the gradient of one component over the views `out` of its row, zero where it never reaches.

    `d` maps activation names (the keys of `REACH`) to d loss / d activation; tensors that no path reaches keep their
    zeros. `target` is the one-hot input of `predict`, needed when `d` has "prediction".
    """
    d_trunk = d.get("trunk")
    outputs = _stream_gradients(d)
    for head in HEADS:
        d_out, d_hidden = outputs.get(head), d.get(f"{head}_hidden")
        if d_out is None and d_hidden is None:
            continue
        through = _head_backward(w, act, head, d_out, d_hidden, out)
        d_trunk = through if d_trunk is None else d_trunk + through
    if "prediction" in d:
        assert target is not None
        _store(out, "p", torch.cat((act.trunk, target), -1), d["prediction"])
        through = torch.bmm(d["prediction"], w["w_p"].transpose(1, 2))[..., : act.trunk.shape[-1]]
        d_trunk = through if d_trunk is None else d_trunk + through
    if d_trunk is not None:
        _trunk_backward(w, norm, act, d_trunk, out)


def _trunk_backward(w: Weights, norm: SpectralNorm, act: Activations, d_trunk: torch.Tensor, out: Weights) -> None:
    d_second = gate(d_trunk, act.trunk)
    effective = torch.bmm(act.first.transpose(1, 2), d_second)
    out["w_s2"].copy_(norm.gradient(w["w_s2"], effective))
    out["b_s2"].copy_(d_second.sum(1, keepdim=True))
    d_first = gate(torch.bmm(d_second, norm.apply(w["w_s2"]).transpose(1, 2)), act.first)
    _store(out, "s1", act.observation, d_first)
