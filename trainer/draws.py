"""Random numbers by purpose: the same (seed, purpose, step, index) gives the same number in any lane of any pack.

Keys carry the seed only, not the arm or the fold: members that differ in an arm see common random numbers.
"""

from __future__ import annotations

import torch

import numba_kernels as nk

EXPLORE, RESTART, SAMPLE, PROBE_STATES = 1, 2, 3, 4
NOISE_WALK, NOISE_ONLINE, NOISE_TARGET = 5, 6, 7
TAU_ONLINE, TAU_TARGET, BOOTSTRAP = 8, 9, 10
INITIALISE = 100  # plus the number of the tensor


class Draws:
    """Uniform float32 numbers in [0, 1) for the members of a pack; `keys` int64 `[P]` are their seeds."""

    def __init__(self, seeds: list[int], device: torch.device) -> None:
        self.keys = torch.tensor(seeds, dtype=torch.int64, device=device)

    def uniform(self, purpose: int, step: torch.Tensor, *shape: int) -> torch.Tensor:
        """float32 `[P, *shape]`; `step` int64 `[P]` is contiguous, one counter per member."""
        count = 1
        for size in shape:
            count *= size
        out = torch.empty(len(self.keys), count, dtype=torch.float32, device=self.keys.device)
        nk.uniform(self.keys, purpose, step, out)
        return out.view(-1, *shape)

    def once(self, purpose: int, *shape: int) -> torch.Tensor:
        """Numbers that do not depend on a step, for example initial weights."""
        return self.uniform(purpose, torch.zeros_like(self.keys), *shape)
