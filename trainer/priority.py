"""Proportional prioritised sampling (Schaul et al. 2016, arXiv 1511.05952) in fixed point, without a sum tree.

Every leaf's p^alpha becomes an integer mass relative to the largest of its member. Integer sums are exact in any order:
a running sum is the same on every device and run, an empty leaf has an interval of length zero and cannot be drawn,
and the heaviest leaf cannot swallow the light ones, as it does in a float32 tree. The sums are made afresh from the
leaves for each batch, so nothing drifts.
"""

from __future__ import annotations

import torch

SCALE = 2.0**32  # mass of the largest leaf: a million of them sum to less than 2^53, up to where float64 counts exactly
TINY = 2.0**-126  # below every priority; stands in where there is none, because the logarithm of 0 is slow on CPU


def leaf_masses(priority: torch.Tensor, startable: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """int64 `[P, N]`, proportional to priority^alpha where bool `startable` `[P, N]`, elsewhere 0.

    `priority` float32 `[P, N]` is positive where startable; `alpha` float32 `[P]`, 0: all masses equal. A startable
    leaf has a mass of at least 1, so that none becomes unreachable beside a very large one.
    """
    log_p = torch.where(startable, priority, TINY).double().log_()
    relative = log_p.sub_(log_p.amax(1, keepdim=True)).mul_(alpha.double()[:, None]).exp_()
    return relative.mul_(SCALE).round_().clamp_(min=1.0).long().mul_(startable)


def draw_leaves(mass: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """int64 leaves `[P, B]`, one from each of B equal parts of the member's total mass; `u` float32 `[P, B]` in [0, 1).

    Leaf i owns the integers from the sum of the masses before it up to, but not with, the sum that includes it. A draw
    is as fine as `u`: with 24 bits, 2^-24 / B of the total.
    """
    running = mass.cumsum(1)
    total, batch = running[:, -1:], u.shape[1]
    part = torch.arange(batch, device=u.device)
    position = ((part + u.double()) * (total.double() / batch)).long()
    return torch.searchsorted(running, torch.minimum(position, total - 1), right=True)


def importance_weights(mass: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """float32 `[P, B]`: (N P(i))^-beta over its batch maximum, for the `mass` of the drawn leaves (int64 `[P, B]`).

    N is the number of startable leaves and P(i) the mass over the total. N and the total are the same for the whole
    batch and cancel, which leaves (smallest mass in the batch / mass)^beta. `beta` float32 `[P]`, 0: no correction.
    """
    log_mass = mass.double().log_()
    return ((log_mass.amin(1, keepdim=True) - log_mass) * beta.double()[:, None]).exp_().float()
