"""What every loss over the two action branches shares: where they sit, and when the magnitude counts.

A head that values both branches has six outputs, three directions then three magnitudes. A flat direction leaves the
magnitude without effect, so nothing is learned about it there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainer.params import DIRECTIONS

FLAT = 1  # index of "flat" among the directions short, flat, long


@dataclass(frozen=True)
class Loss:
    """`value` `[P]`: one figure a member; `d_values`: its gradient with respect to the outputs it was given."""

    value: torch.Tensor
    d_values: torch.Tensor


def outputs_of(direction: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """int64 `[..., 2]`: places of an action's two branch values among the six outputs."""
    return torch.stack((direction, DIRECTIONS + magnitude), -1)


def take(values: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Both branch values `[..., 2]` of `values` `[..., 6]` at `action` `[..., 2]` (of `outputs_of`)."""
    return values.gather(-1, action)
