"""The three faults that made the older trainer's collapse recovery a silent no-op, to be planted on purpose.

Each takes `plant(module, name, value)`, which replaces an attribute for a while: `monkeypatch.setattr` in a test,
`unittest.mock.patch.object` in a benchmark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trainer import aux_ops, loop, snapshots, step

Plant = Callable[[Any, str, Any], object]


def add_at_the_epoch_boundary(plant: Plant) -> None:
    """Bug 1: nothing within the step; the pull lands in the gradient when the epoch ends and is cleared away."""
    distill, end_epoch = step.distill, loop.end_epoch

    def end(pack: Any, *rest: Any) -> None:
        end_epoch(pack, *rest)
        distill(pack, False)

    plant(step, "distill", lambda pack, diagnose: torch.zeros(pack.size, device=pack.device))
    plant(loop, "end_epoch", end)


def bake_alpha_in(plant: Plant) -> None:
    """Bug 2: the coefficient of the first launch, 0, is used for ever, as a captured scalar argument would be."""
    original, baked = aux_ops.nk.distill_saxpy, []

    def captured(gradient: Any, params: Any, best: Any, signals: Any, slots: Any, alpha: Any, count: int) -> None:
        if not baked:
            original(gradient.clone(), params, best, signals, slots, alpha, count)
            baked.append(alpha.clone())
        alpha.copy_(baked[0])
        aux_ops.nk.saxpy(gradient, baked[0], params - best)

    plant(aux_ops.nk, "distill_saxpy", captured)


def gate_on_a_stuck_average(plant: Plant) -> None:
    """Bug 3: the gate is handed an average that stays 0, so that no snapshot is ever accepted."""
    plant(snapshots, "accepts", lambda signals, counters: torch.zeros_like(counters["updates"], dtype=torch.bool))


FAULTS = {
    "bug 1: at the epoch boundary": add_at_the_epoch_boundary,
    "bug 2: alpha baked in": bake_alpha_in,
    "bug 3: gate on a stuck average": gate_on_a_stuck_average,
}
