"""Conservative penalty CQL(H) (Kumar et al. 2020, arXiv 2006.04779, eq. 4) on the action values of each branch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from trainer.losses.branches import FLAT


@dataclass(frozen=True)
class CQLLoss:
    """`value` and `excess` `[P]`; the gradients `[P, B, 3]` are of `value`.

    `excess` is `value` minus what uniform action values would give, log 3 for every branch counted. It is negative
    where the actions in the data are valued above the others: the value's own minimum, 0, is only approached.
    """

    value: torch.Tensor
    excess: torch.Tensor
    direction_q: torch.Tensor
    magnitude_q: torch.Tensor


def _branch(q: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """logsumexp(q) - q[action] `[P, B]` and its gradient softmax(q) - onehot(action)."""
    log_p = torch.log_softmax(q, -1)
    place = action.unsqueeze(-1)
    taken = torch.zeros_like(q).scatter_(-1, place, 1.0)
    return -log_p.gather(-1, place).squeeze(-1), log_p.exp() - taken


def cql_loss(
    direction_q: torch.Tensor, magnitude_q: torch.Tensor, direction: torch.Tensor, magnitude: torch.Tensor
) -> CQLLoss:
    """Batch mean of the sum over branches of logsumexp(Q) - Q(action in the data).

    Action values `[P, B, 3]`, actions int64 `[P, B]`. Where the direction taken is flat the magnitude has no term.
    """
    batch, flat = direction.shape[1], direction == FLAT
    loss_d, grad_d = _branch(direction_q, direction)
    loss_m, grad_m = _branch(magnitude_q, magnitude)
    value = (loss_d + loss_m.masked_fill(flat, 0.0)).sum(1) / batch
    uniform = math.log(direction_q.shape[-1]) + math.log(magnitude_q.shape[-1]) * (~flat).to(value.dtype).mean(1)
    grad_m = grad_m.masked_fill(flat.unsqueeze(-1), 0.0)
    return CQLLoss(value, value - uniform, grad_d / batch, grad_m / batch)
