"""Conservative penalty CQL(H) (Kumar et al. 2020, arXiv 2006.04779, eq. 4) on the action values of each branch.

It is 0 at its least, which is only approached: where the actions in the data are valued far above the others. At
uniform action values it is log 3 for every branch counted.
"""

from __future__ import annotations

import torch

import numba_kernels as nk
from trainer.losses.branches import Loss
from trainer.network import Activations


def cql_loss(act: Activations, direction: torch.Tensor, magnitude: torch.Tensor, support: torch.Tensor) -> Loss:
    """Batch mean of the sum over branches of logsumexp(Q) - Q(action in the data), and its gradient at `act.streams`.

    `act` of at least B states, of which the first count; actions int64 `[P, B]`; `support` `[P, K]`. Where the
    direction taken is flat the magnitude has no term.
    """
    sample = torch.empty(direction.shape, device=direction.device)
    d_streams = act.streams.new_empty(*direction.shape, act.streams.shape[-1])
    nk.cql(act.streams, act.offset, direction, magnitude, support, sample, d_streams)
    return Loss(sample.mean(1), d_streams)
