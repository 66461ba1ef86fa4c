"""All parameters of a member in one flat, padded float32 buffer; a pack is `[P, total]`.

Every tensor starts on a 128-byte boundary and every row is padded to a multiple of 128 bytes, the width that matrix
units like. Padding is zero from the first byte on and nothing writes to it: the optimiser sees a zero gradient there.
Gradients, Adam moments and the target network use the same layout, so one kernel serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from trainer.config import NetworkConfig

ALIGN = 32  # float32 values in 128 bytes
DIRECTIONS, MAGNITUDES, TARGETS = 3, 3, 7
SLICES = ("trunk", "value", "direction", "magnitude", "predictive")
C51_REACH = SLICES[:4]  # the slices that the C51 loss can write


@dataclass(frozen=True)
class TensorSpec:
    """One matrix `[rows, columns]` inside the buffer; a bias has one row."""

    name: str
    slice: str
    rows: int
    columns: int
    start: int

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

    def views(self, buffer: torch.Tensor) -> dict[str, torch.Tensor]:
        """Strided views `[P, rows, columns]` of a `[P, total]` buffer, by tensor name; they share its memory."""
        members = buffer.shape[0]
        return {
            t.name: buffer.as_strided(
                (members, t.rows, t.columns), (buffer.stride(0), t.row_stride, 1), buffer.storage_offset() + t.start
            )
            for t in self.tensors
        }

    def padding(self) -> torch.Tensor:
        """bool `[total]`: True where no parameter lives."""
        mask = torch.ones(1, self.total, dtype=torch.bool)
        for view in self.views(mask).values():
            view.fill_(False)
        return mask[0]


def make_layout(observation: int, network: NetworkConfig) -> ParamLayout:
    """Tensor order: trunk 0..4, value head 4..8, direction 8..12, magnitude 12..16, predictive head 16..18."""
    first, second = network.trunk
    shapes = [("trunk", "w_s1", observation, first), ("trunk", "b_s1", 1, first)]
    shapes += [("trunk", "w_s2", first, second), ("trunk", "b_s2", 1, second)]
    outputs = {"value": 1, "direction": DIRECTIONS, "magnitude": MAGNITUDES}
    for head, actions in outputs.items():
        letter = head[0]
        shapes += [(head, f"w_{letter}1", second, network.head), (head, f"b_{letter}1", 1, network.head)]
        width = actions * network.atoms
        shapes += [(head, f"w_{letter}2", network.head, width), (head, f"b_{letter}2", 1, width)]
    shapes += [("predictive", "w_p", second + TARGETS, second), ("predictive", "b_p", 1, second)]
    tensors, start = [], 0
    for part, name, rows, columns in shapes:
        tensors.append(TensorSpec(name, part, rows, columns, start))
        start = tensors[-1].stop
    return ParamLayout(tuple(tensors))


def initialise(layout: ParamLayout, buffer: torch.Tensor, draw: Callable[[int, int], torch.Tensor]) -> None:
    """Fill `buffer` in place with U(-1/sqrt(inputs), 1/sqrt(inputs)), the customary linear-layer start.

    `draw(index, count)` gives float32 `[P, count]` uniforms in [0, 1) for tensor number `index`.
    """
    buffer.zero_()
    views = layout.views(buffer)
    for index, tensor in enumerate(layout.tensors):
        inputs = tensor.rows if tensor.rows > 1 else layout.tensors[index - 1].rows
        uniform = draw(index, tensor.rows * tensor.columns)
        values = (uniform * 2.0 - 1.0) * inputs**-0.5  # a product rounds alike on every device, a quotient does not
        views[tensor.name].copy_(values.view(-1, tensor.rows, tensor.columns))
