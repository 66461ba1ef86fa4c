"""Random arguments for every operation, and comparisons to the bit."""

import numpy as np
import torch

from numba_kernels import OPERATIONS

INTEGER_OF_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def walk_table(rows, seed, spread=0.01):
    """(open, close, years): a random walk of prices with a gap before every open."""
    steps = np.random.default_rng(seed).normal(0.0, spread, (rows, 2))
    path = 100.0 * np.exp(np.cumsum(steps.ravel()))
    return [torch.from_numpy(a.copy()) for a in (path[0::2], path[1::2], np.full(rows, 1.0 / 252.0))]


def uniform(g, lanes, size):
    return [word(g, lanes), 3, word(g, lanes), torch.zeros(lanes, 3 * size)]


def slice_norms(g, lanes, size):
    starts = torch.tensor([0, 0, 1, 37 * size, 41 * size])
    return [normal(g, 2, lanes, 41 * size), starts, torch.zeros(2, lanes, 4)]


def branch_independence(g, lanes, size):
    shape = (lanes, size + 2, size), (lanes, size + 2, size // 2 + 1)
    return [*(normal(g, *s) for s in shape), ones(lanes), torch.zeros(lanes), *(torch.zeros(s) for s in shape)]


def temporal_consistency(g, lanes, size):
    q, q_next = normal(g, lanes, size, 3), normal(g, lanes, size, 3)
    weight, temperature = positive(g, lanes, size), positive(g, lanes) + 0.5
    return [
        q,
        q_next,
        weight,
        temperature,
        ones(lanes),
        torch.zeros(lanes, size),
        *(torch.zeros(q.shape) for _ in "ab"),
    ]


def predictive_coding(g, lanes, size):
    shape = (lanes, size, 2 * size + 1)
    weight = positive(g, lanes, size)
    return [normal(g, *shape), normal(g, *shape), weight, ones(lanes), torch.zeros(lanes, size), torch.zeros(shape)]


def lane_mean(g, lanes, size):
    return [normal(g, lanes, 11 * size), positive(g, lanes, 11 * size), torch.zeros(lanes)]


def market_step(g, lanes, size):
    walks = lambda high: torch.randint(high, (lanes, size), generator=g)
    row, target, choice = walks(20), walks(7), walks(7)
    weight, equity = (torch.rand(lanes, size, generator=g, dtype=torch.float64) + s for s in (-0.5, 0.5))
    return [*walk_table(40, 1), row, target, weight, equity, choice, costs(lanes), weight * 0, walks(1).int()]


def evaluation_scan(g, lanes, size):
    row0 = torch.arange(lanes * 2).view(lanes, 2) % 5
    length = torch.full((lanes, 2), size) - row0 % 3
    choice = torch.randint(7, (lanes, 2, size, 7), generator=g).to(torch.int8)
    outputs = [torch.zeros(lanes, 2, size, dtype=kind) for kind in (torch.float64, torch.int8, torch.float64)]
    return [*walk_table(size + 8, 2), row0, length, choice, costs(lanes), *outputs, torch.zeros(lanes, 2).int()]


def c51(g, lanes, size):
    atoms, batch = 21, size
    action = lambda: torch.randint(3, (lanes, batch), generator=g)
    support = torch.linspace(-4, 4, atoms) * (1.0 + torch.arange(lanes)[:, None])
    streams = [2.0 * normal(g, lanes, n, 160) for n in (2 * batch, batch)]
    offsets = [normal(g, lanes, 6, atoms) for _ in "ab"]
    inputs = [streams[0], offsets[0], streams[1], offsets[1], action(), action(), normal(g, lanes, batch)]
    inputs += [torch.rand(lanes, batch, generator=g), positive(g, lanes, batch), support]
    outputs = [torch.zeros(lanes, batch), torch.zeros(lanes, batch), action(), action()]
    return [*inputs, *outputs, torch.full((lanes, batch, 160), 7.0)]


def cql(g, lanes, size):
    atoms, batch = 21, size
    support = torch.linspace(-4, 4, atoms) * (1.0 + torch.arange(lanes)[:, None])
    actions = [torch.randint(3, (lanes, batch), generator=g) for _ in "ab"]
    inputs = [2.0 * normal(g, lanes, batch + 3, 160), normal(g, lanes, 6, atoms), *actions, support]
    return [*inputs, torch.zeros(lanes, batch), torch.full((lanes, batch, 160), 7.0)]


def bias_relu(g, lanes, size):
    return [normal(g, lanes, 9 * size, 5 * size), normal(g, lanes, 7 * size)[:, : 5 * size]]


def relu_gradient(g, lanes, size):
    shape, apart = (lanes, 9 * size, 5 * size), torch.zeros(lanes, 7 * size)
    return [normal(g, *shape), normal(g, *shape), apart[:, : 5 * size]]


def bias_gradient(g, lanes, size):
    return [normal(g, lanes, 9 * size, 5 * size), 3, torch.zeros(lanes, 7 * size)[:, : 4 * size], 4 * size]


def quantile_huber(g, lanes, size):
    shape = (lanes, 3 * size, 5)
    action = lambda: torch.randint(3, shape[:2], generator=g)
    inputs = [normal(g, *shape, 6), torch.rand(shape, generator=g), normal(g, *shape[:2], 7), action(), action()]
    return [*inputs, positive(g, *shape[:2]), 0.75, torch.zeros(shape), torch.zeros(*shape, 6)]


def ensemble_huber(g, lanes, size):
    shape = (lanes, 3 * size, 4)
    action = lambda high: torch.randint(high, shape[:2], generator=g)
    rows = [positive(g, *shape[:2]) for _ in "abc"]
    keep = torch.randint(2, (lanes, 9, 4), generator=g).to(torch.int8)
    inputs = [*(2.0 * normal(g, *shape, 6) for _ in "abc"), action(3), action(3), *rows, keep, action(9)]
    return [*inputs, torch.full(shape, 7.0), torch.full((*shape, 6), 7.0)]


def ensemble_divergence(g, lanes, size):
    return [3.0 * normal(g, lanes, 3 * size, 4, 6), positive(g, lanes), 0.5 / np.log(4.0), torch.zeros(lanes, 3 * size)]


def mixing_gradient(g, lanes, size):
    rows, width = (lanes, 9 * size * 5, size), (lanes, 9 * size, size)
    outputs = [torch.zeros(width), torch.zeros(lanes, 2 * size)[:, :size]]
    return [normal(g, *rows), normal(g, *rows).relu(), normal(g, *width), *outputs]


def observe(g, lanes, size):
    row, target = (torch.randint(high, (lanes, size), generator=g) for high in (11, 7))
    return [normal(g, 11, 5), row, target, torch.zeros(lanes, size, 12)]


def n_step(g, lanes, size):
    ring = lambda high, kind: torch.randint(high, (lanes, 12, 3), generator=g).to(kind)
    small = [ring(high, torch.int8) for high in (7, 7, 3, 3)]
    flags = ring(3, torch.int8) * ring(2, torch.int8)
    fields = [ring(50, torch.int32), *small, normal(g, lanes, 12, 3), flags]
    inputs = [torch.randint(36, (lanes, size), generator=g), 0.5 + 0.5 * torch.rand(lanes, 2, generator=g)[:, 0], 3]
    outputs = [torch.zeros(lanes, n, size, dtype=torch.int64) for n in (3, 3, 2)]
    return [*fields, *inputs, *outputs, torch.zeros(lanes, 3, size)]


def draw_evenly(g, lanes, size):
    u = torch.randint(2**24, (lanes, 9 * size), generator=g) / 2.0**24
    bars = torch.randint(3, 14, (lanes,), generator=g)
    return [bars, u, 6, 4, 3, torch.zeros(lanes, 9 * size, dtype=torch.int64)]


def action_offsets(g, lanes, size):
    value, *branches = (normal(g, lanes, 5 * width * size) for width in (1, 3, 3))
    return [value[:, : 3 * size], *(b[:, : 9 * size] for b in branches), torch.zeros(lanes, 6, 3 * size)]


def anneal(g, lanes, size):
    counters = torch.randint(9, (lanes, 3), generator=g)
    linear, ramps = torch.tensor([[0, 1, 2, 5], [3, 1, 2, 6]]), torch.tensor([[3, 2, 4]])
    return [positive(g, lanes, 7) * 6.0, counters, 1, linear, ramps]


def budget(g, lanes, size):
    return [positive(g, lanes, size), positive(g, lanes, 4), torch.tensor([3, 1]), *(torch.zeros(lanes) for _ in "abc")]


def clip(g, lanes, size):
    counters = torch.tensor([[5, 2, -1, 9]]).repeat(lanes, 1)
    tables = [positive(g, lanes, 12) * 0.5, counters, torch.randperm(12, generator=g)[:10], torch.tensor([0, 1, 2])]
    outputs = [torch.zeros(lanes), torch.zeros(lanes), ones(lanes), torch.zeros(lanes, 7)]
    return [positive(g, lanes, size), positive(g, lanes), *tables, *outputs]


def adam_step(g, lanes, size):
    coefficients = torch.tensor([[0.5, 1e-3, 0.9, 0.999, 2.0, 1e-8, 0.01]]).repeat(lanes, 1)
    rows = [normal(g, lanes, 6 * size) for _ in range(5)]
    low = [torch.full((lanes, 2 * size), 7.0, dtype=torch.bfloat16) for _ in "ab"]
    return [rows[0], coefficients, ones(lanes), rows[1], rows[2], rows[3].abs(), rows[4], 6 * size - 2, *low]


def saxpy(g, lanes, size):
    return [normal(g, lanes, 42 * size), normal(g, lanes), normal(g, lanes, 42 * size), 40 * size]


scaled = saxpy


def distill_saxpy(g, lanes, size):
    rows = [normal(g, lanes, 41 * size) for _ in range(3)]
    signals = torch.tensor([[7.0, 0.2, 0.5, 1.0, 0.3]]).repeat(lanes, 1)  # health 0.2 below a limit of 0.5
    signals[:, 1] += 0.1 * torch.rand(lanes, generator=g)
    return [*rows, signals, torch.tensor([1, 4, 2, 3]), torch.zeros(lanes), 40 * size]


def normal(g, *shape):
    return torch.randn(*shape, generator=g)


def positive(g, *shape):
    return torch.rand(*shape, generator=g) + 0.1


def ones(lanes):
    return torch.ones(lanes, dtype=torch.int32)


def word(g, lanes):
    return torch.randint(-(2**63), 2**63 - 1, (lanes,), generator=g)


def costs(lanes):
    """Trade rate, financing, borrow, band, bankruptcy equity; a row a lane."""
    return torch.tensor([[0.003, 0.02, 0.05, 0.0, 0.05]], dtype=torch.float64).repeat(lanes, 1)


NARROW = "_bfloat16"
BY_NAME = {operation.name: operation for operation in OPERATIONS}


def arguments(name, lanes=3, size=8, seed=0):
    """Fresh arguments of the operation `name`; one on bfloat16 takes those of its float32 sibling, rounded."""
    size += size % 2 if name.endswith(NARROW) else 0
    values = globals()[name.removesuffix(NARROW)](torch.Generator().manual_seed(seed), lanes, size)
    kinds = [a.kind for a in BY_NAME[name].arguments]
    return [v.to(torch.bfloat16) if kind == "bfloat16" else v for v, kind in zip(values, kinds, strict=True)]


def lane_axis(name, i):
    """The axis of argument i that runs over lanes, or None."""
    sizes = BY_NAME[name].arguments[i].sizes
    return sizes.index("P") if "P" in sizes else None


def bits(tensor):
    return tensor.contiguous().view(INTEGER_OF_SIZE[tensor.element_size()])


def differing(name, left, right):
    """Names of the arguments in which two calls differ in any bit."""
    pairs = zip(BY_NAME[name].arguments, left, right, strict=True)
    return [a.name for a, x, y in pairs if a.is_tensor and not torch.equal(bits(x), bits(y))]
