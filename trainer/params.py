"""All parameters of a member in one flat, padded float32 buffer; a pack is `[P, total]`.

Every tensor starts on a 128-byte boundary and every row is padded to a multiple of 128 bytes, the width that matrix
units like. Padding is zero from the first byte on and nothing writes to it: the optimiser sees a zero gradient there.
Gradients, Adam moments and the target network use the same layout, so one kernel serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import torch

from trainer.config import TrainerConfig

ALIGN = 32  # float32 values in 128 bytes
DIRECTIONS, MAGNITUDES, TARGETS = 3, 3, 7
OUTPUTS = DIRECTIONS + MAGNITUDES  # of a head that values both branches
HEADS = {"value": 1, "direction": DIRECTIONS, "magnitude": MAGNITUDES}
SLICES = ("trunk", "value", "direction", "magnitude", "iqn", "ensemble", "predictive", "reconstruction", "noise")
MAIN = SLICES[:4]  # the network that acts
C51_REACH = ("trunk", "value", "direction", "magnitude", "noise")  # the slices that the C51 loss can write


@dataclass(frozen=True)
class TensorSpec:
    """One matrix `[rows, columns]` inside the buffer; a bias has one row."""

    name: str
    slice: str
    rows: int
    columns: int
    start: int
    inputs: int  # of the layer it belongs to

    @property
    def row_stride(self) -> int:
        return -(-self.columns // ALIGN) * ALIGN

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.row_stride


@dataclass(frozen=True)
class ParamLayout:
    """Names, shapes and places of all tensors. The slices partition the buffer."""

    tensors: tuple[TensorSpec, ...]

    @property
    def total(self) -> int:
        return self.tensors[-1].stop

    @cached_property
    def slices(self) -> dict[str, tuple[int, int]]:
        """Half-open float ranges of the buffer, in buffer order."""
        spans = {}
        for name in SLICES:
            inside = [t for t in self.tensors if t.slice == name]
            spans[name] = (inside[0].start, inside[-1].stop)
        return spans

    def slice_starts(self, device: str | torch.device = "cpu") -> torch.Tensor:
        """int64 `[len(SLICES) + 1]`: where each slice begins, then the end of the buffer."""
        return torch.tensor([self.slices[n][0] for n in SLICES] + [self.total], dtype=torch.int64, device=device)

    def used(self, slices: Iterable[str]) -> int:
        """Length of the shortest prefix that holds all of `slices`: a step need not touch what lies beyond."""
        return max(self.slices[name][1] for name in slices)

    def views(self, buffer: torch.Tensor, slices: Iterable[str] = SLICES) -> dict[str, torch.Tensor]:
        """Strided views `[P, rows, columns]` of a `[P, total]` buffer, by tensor name; they share its memory.

        Of the tensors in `slices`, up to which the buffer must reach.
        """
        members = buffer.shape[0]
        return {
            t.name: buffer.as_strided(
                (members, t.rows, t.columns), (buffer.stride(0), t.row_stride, 1), buffer.storage_offset() + t.start
            )
            for t in self.tensors
            if t.slice in slices
        }

    def padding(self) -> torch.Tensor:
        """bool `[total]`: True where no parameter lives."""
        mask = torch.ones(1, self.total, dtype=torch.bool)
        for view in self.views(mask).values():
            view.fill_(False)
        return mask[0]


Shape = tuple[str, str, int, int, int]  # slice, name, rows, columns, inputs


def _layer(part: str, name: str, inputs: int, outputs: int, rows: int = 1) -> list[Shape]:
    """Weight `[inputs, outputs]` and bias `[rows, outputs]`."""
    return [(part, f"w_{name}", inputs, outputs, inputs), (part, f"b_{name}", rows, outputs, inputs)]


def _main(observation: int, trainer: TrainerConfig) -> list[Shape]:
    """Tensors 0..16: what C51 trains."""
    network = trainer.network
    first, second = network.trunk
    shapes = _layer("trunk", "s1", observation, first) + _layer("trunk", "s2", first, second)
    for head, actions in HEADS.items():
        shapes += _layer(head, f"{head[0]}1", second, network.head)
        shapes += _layer(head, f"{head[0]}2", network.head, actions * network.atoms)
    return shapes


def _auxiliary(observation: int, trainer: TrainerConfig) -> list[Shape]:
    """The heads that only shape the trunk, and the noise scales."""
    network, ensemble = trainer.network, trainer.ensemble
    width, units = network.trunk[1], ensemble.heads * ensemble.hidden
    shapes = _layer("iqn", "q0", trainer.iqn.cosines, width) + _layer("iqn", "q1", width, network.head)
    shapes += _layer("iqn", "q2", network.head, OUTPUTS)
    shapes += _layer("ensemble", "e1", width, units)
    shapes += [("ensemble", "w_e2", units, OUTPUTS, ensemble.hidden)]  # the heads' matrices below each other
    shapes += [("ensemble", "b_e2", ensemble.heads, OUTPUTS, ensemble.hidden)]
    shapes += _layer("predictive", "p", width + TARGETS, width)
    shapes += _layer("reconstruction", "r", width, observation)
    for head in HEADS:
        layer = _layer("noise", f"{head[0]}1", width, network.head)
        shapes += [(part, f"sigma_{name}", rows, columns, inputs) for part, name, rows, columns, inputs in layer]
    return shapes


def make_layout(observation: int, trainer: TrainerConfig) -> ParamLayout:
    """Tensor order: trunk 0..4, value head 4..8, direction 8..12, magnitude 12..16, then the auxiliary heads."""
    tensors: list[TensorSpec] = []
    start = 0
    for part, name, rows, columns, inputs in _main(observation, trainer) + _auxiliary(observation, trainer):
        tensors.append(TensorSpec(name, part, rows, columns, start, inputs))
        start = tensors[-1].stop
    return ParamLayout(tuple(tensors))


def initialise(
    layout: ParamLayout, buffer: torch.Tensor, sigma: float, draw: Callable[[int, int], torch.Tensor]
) -> None:
    """Fill `buffer` in place with U(-1/sqrt(inputs), 1/sqrt(inputs)), the customary linear-layer start.

    Noise scales start at `sigma` / sqrt(inputs) (Fortunato et al. 2018, arXiv 1706.10295, section 3.2). `draw(index,
    count)` gives float32 `[P, count]` uniforms in [0, 1) for tensor number `index`.
    """
    buffer.zero_()
    views = layout.views(buffer)
    for index, tensor in enumerate(layout.tensors):
        bound = tensor.inputs**-0.5
        if tensor.slice == "noise":
            views[tensor.name].fill_(sigma * bound)
            continue
        uniform = draw(index, tensor.rows * tensor.columns)
        values = (uniform * 2.0 - 1.0) * bound  # a product rounds alike on every device, a quotient does not
        views[tensor.name].copy_(values.view(-1, tensor.rows, tensor.columns))
