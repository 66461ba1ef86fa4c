"""The training iteration as two CUDA graphs, plain and with diagnostics: the same functions, launched at once.

An iteration is hundreds of small launches; replayed as one graph it costs the host a few microseconds. Nothing in it
reads a host number, so a replay does what the eager iteration would do on the tables as they stand then.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from trainer.pack import Pack
from trainer.step import iterate

Step = Callable[[Pack, bool], None]
EAGER_RUNS = 2  # before capture: libraries set up their handles and workspaces on first use


class CapturedStep:
    """Does one iteration of `pack` a call. The first calls of each kind run eagerly, then a graph is captured.

    The graphs hold the addresses of the pack's tensors: a pack that is reset in place keeps its graphs.
    """

    def __init__(self) -> None:
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self._eager_runs = {False: 0, True: 0}

    def __call__(self, pack: Pack, diagnose: bool) -> None:
        if diagnose not in self._graphs:
            if self._eager_runs[diagnose] < EAGER_RUNS:
                self._eager_runs[diagnose] += 1
                iterate(pack, diagnose)
                return
            self._graphs[diagnose] = self._capture(pack, diagnose)
        self._graphs[diagnose].replay()

    def _capture(self, pack: Pack, diagnose: bool) -> torch.cuda.CUDAGraph:
        """Both graphs share one memory pool: they never run at the same time and hand nothing to one another."""
        graph, other = torch.cuda.CUDAGraph(), self._graphs.get(not diagnose)
        with torch.cuda.graph(graph, pool=other.pool() if other else None, capture_error_mode="thread_local"):
            iterate(pack, diagnose)
        return graph


def make_step(pack: Pack) -> Step:
    """The iteration as this machine should run it."""
    return CapturedStep() if pack.device.type == "cuda" and pack.spec.machine.capture else iterate
