"""Prioritised replay: Schaul's probabilities and weights, masses that no rounding can empty, and priorities written."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.priority import SCALE, draw_leaves, importance_weights, leaf_masses
from trainer.replay import FIELDS, PRIORITY_FLOOR, insert, make_replay, sample, update_priorities

LARGEST_U = 1.0 - 2.0**-24  # of the float32 numbers that the generator makes


def ring(bars, columns, environments, members=1, seed=0):
    """A replay after `bars` inserts; a transition's row tells when it was inserted and by which walk."""
    replay, g = make_replay(members, columns * environments, environments, torch.device("cpu")), torch.Generator()
    g.manual_seed(seed)
    for bar in range(bars):
        column = {name: torch.zeros(members, environments) for name in FIELDS if name != "priority"}
        column["row"] = (bar * environments + torch.arange(environments)).expand(members, -1)
        column["reward"] = torch.randn(members, environments, generator=g)
        insert(replay, torch.full((members,), bar), **column)
    return replay, torch.full((members,), bars)


def drawn(replay, bars, n_step=1, alpha=1.0, beta=1.0, u=None, batch=16, seed=0):
    members = len(bars)
    if u is None:
        u = torch.from_numpy(np.random.default_rng(seed).random((members, batch), np.float32))
    alpha, beta = (torch.as_tensor(value).expand(members) for value in (alpha, beta))
    return sample(replay, bars, n_step, torch.full((members,), 0.9), (alpha, beta), u)


def priorities(replay, values):
    replay.fields["priority"].copy_(torch.as_tensor(values).view_as(replay.fields["priority"]))


def whole(values):
    """(float32 [1, N], all startable)."""
    row = torch.as_tensor(values, dtype=torch.float32)[None]
    return row, torch.ones_like(row, dtype=torch.bool)


def test_published_probabilities_and_weights():
    """rl.md 3.8: p = 1, 2, 3, 4 with alpha .5; p^alpha sums to 6.146; w = (4 P)^-.4 over the weight of the lightest."""
    mass = leaf_masses(*whole([1, 2, 3, 4]), torch.tensor([0.5]))
    share = (mass.double() / mass.sum()).numpy()[0]
    np.testing.assert_allclose(share, [0.1627, 0.230093, 0.281805, 0.325401], atol=5e-7)
    weight = importance_weights(mass, torch.tensor([0.4])).numpy()[0]
    np.testing.assert_allclose(weight, [1.0, 0.870551, 0.802742, 0.757858], atol=1e-6)
    replay, bars = ring(4, 4, 1)
    priorities(replay, [1.0, 2.0, 3.0, 4.0])
    batch = drawn(replay, bars, alpha=0.5, beta=0.4, u=torch.full((1, 8), 0.5))
    assert batch.index.tolist() == [[0, 1, 1, 2, 2, 3, 3, 3]]  # (b + .5)/8 between the sums .163, .393, .675
    np.testing.assert_allclose(batch.weight[0].numpy(), weight[batch.index[0].numpy()], rtol=1e-6)


def test_interval_ends_belong_to_one_leaf():
    """Dopamine's sum tree: eight ones, query k finds leaf k; the last number below k still finds leaf k - 1."""
    mass = torch.ones(1, 8, dtype=torch.int64)
    assert draw_leaves(mass, torch.zeros(1, 8)).tolist() == [list(range(8))]
    assert draw_leaves(mass, torch.full((1, 8), LARGEST_U)).tolist() == [list(range(8))]
    uneven = torch.tensor([[2, 4, 2, 2]])  # .5, 1, .5, .5 in quarters
    assert draw_leaves(uneven, torch.zeros(1, 10)).tolist() == [[0, 0, 1, 1, 1, 1, 2, 2, 3, 3]]


@pytest.mark.parametrize("u", [0.0, 0.5, LARGEST_U])
@pytest.mark.parametrize("empty", [[0], [7], [0, 1, 2], [5, 6, 7], [0, 2, 4, 6], [1, 2, 3, 4, 5, 6, 7]])
def test_an_empty_leaf_is_never_drawn(u, empty):
    mass = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    mass[0, empty] = 0
    for batch in (1, 3, 64):
        leaves = draw_leaves(mass, torch.full((1, batch), u))
        assert (mass.gather(1, leaves) > 0).all()


def test_a_heavy_leaf_swallows_no_light_one():
    """A float32 running sum stands still after the first leaf here, and its light leaves can never be drawn."""
    p = np.r_[1e8, np.ones(255)].astype(np.float32)
    assert (np.cumsum(p) == p[0]).all()
    mass = leaf_masses(*whole(p), torch.ones(1))
    assert (mass[0, 1:] == round(SCALE / 1e8)).all()
    u = torch.zeros(3000, 64)
    u[:, -1] = 1.0 - torch.arange(1, 3001) * 2.0**-24  # the light leaves lie at the end of the last stratum
    leaves = draw_leaves(mass.repeat(3000, 1), u)
    assert (leaves[:, :-1] == 0).all()
    assert set(leaves[:, -1].tolist()) == set(range(256))


def test_every_startable_leaf_keeps_a_mass_and_no_other_gets_one():
    p, startable = whole([float(np.finfo(np.float32).max), PRIORITY_FLOOR, PRIORITY_FLOOR, 0.0])
    startable[0, 2:] = False
    assert leaf_masses(p, startable, torch.ones(1)).tolist() == [[int(SCALE), 1, 0, 0]]
    assert leaf_masses(p, startable, torch.zeros(1)).tolist() == [[int(SCALE), int(SCALE), 0, 0]]


def test_a_million_equal_leaves_are_counted_exactly():
    leaves = 1_000_000
    mass = leaf_masses(*whole(np.full(leaves, 3.7)), torch.tensor([0.6]))
    assert int(mass.sum()) == leaves * int(SCALE) < 2**53
    for u in (0.0, LARGEST_U):
        assert draw_leaves(mass, torch.full((1, 1000), u))[0].tolist() == [
            leaves // 1000 * b + (leaves // 1000 - 1) * (u > 0) for b in range(1000)
        ]


def test_priorities_outside_the_startable_leaves_do_not_matter():
    replay, bars = ring(9, 8, 2)
    priorities(replay, np.random.default_rng(0).random(16) + 0.1)
    before = drawn(replay, bars, n_step=3)
    start = bars[0] % 8  # the write position; the window of the two columns before it would cross it
    for column in (start - 1, start - 2):
        replay.fields["priority"][0, column] = torch.tensor([0.0, 1e30])
    after = drawn(replay, bars, n_step=3)
    assert torch.equal(before.index, after.index)
    assert torch.equal(before.weight, after.weight)


def test_alpha_0_is_uniform_with_weights_of_exactly_1():
    replay, bars = ring(13, 10, 3)
    priorities(replay, np.random.default_rng(1).lognormal(0, 4, 30).astype(np.float32))
    startable = (10 - 3 + 1) * 3
    for seed in range(4):  # one stratum a leaf: whatever u, each is drawn once
        batch = drawn(replay, bars, n_step=3, alpha=0.0, beta=0.7, batch=startable, seed=seed)
        assert sorted(batch.rows[0, 0].tolist()) == list(range(3 * 3, 11 * 3))
        assert (batch.weight == 1.0).all()
    twice = drawn(replay, bars, n_step=3, alpha=0.0, batch=2 * startable)
    assert (np.unique(twice.index[0], return_counts=True)[1] == 2).all()


def test_beta_moves_the_weights_from_none_to_full_correction():
    replay, bars = ring(64, 64, 1)
    priorities(replay, np.random.default_rng(2).lognormal(0, 1, 64).astype(np.float32))
    mass = replay.fields["priority"].flatten().double()
    weights = []
    for beta in (0.0, 0.4, 0.7, 1.0):
        batch = drawn(replay, bars, alpha=1.0, beta=beta, batch=32)
        p = mass[batch.index[0]] / mass.sum()
        raw = (64 * p) ** -beta  # with N and the sum, as in the paper
        np.testing.assert_allclose(batch.weight[0].numpy(), (raw / raw.max()).numpy(), rtol=1e-5)
        assert batch.weight.max() == 1.0
        weights.append(batch.weight[0])
    assert (weights[0] == 1.0).all()
    lighter = weights[1] < 1.0
    assert all((later[lighter] < earlier[lighter]).all() for earlier, later in pairwise(weights))


def test_full_correction_makes_the_batch_mean_that_of_uniform_replay():
    """Importance sampling: sum_i P(i) w_i x_i is proportional to the plain mean of x where beta is 1."""
    p, startable = whole(np.random.default_rng(3).lognormal(0, 1, 50))
    mass = leaf_masses(p, startable, torch.tensor([0.7]))
    x = torch.from_numpy(np.random.default_rng(4).normal(size=50))
    contribution = (mass[0].double() * importance_weights(mass, torch.ones(1))[0].double() * x).sum()
    assert contribution / mass.min() == pytest.approx(x.sum().item(), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    columns=st.integers(4, 20),
    environments=st.integers(1, 4),
    extra=st.integers(-16, 45),
    n_step=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    spread=st.sampled_from([0.0, 1.0, 6.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_only_startable_places_are_drawn_and_each_by_its_share(
    columns, environments, extra, n_step, alpha, spread, seed
):
    """Stratified draws are tight: a leaf with share P is drawn fewer than 2 times more or less than B P."""
    length, batch = max(columns + extra, n_step), 500
    replay, bars = ring(length, columns, environments)
    p = np.exp(np.clip(np.random.default_rng(seed).normal(0, spread, columns * environments), -80, 80))
    priorities(replay, np.maximum(p.astype(np.float32), np.float32(PRIORITY_FLOOR)))
    got = drawn(replay, bars, n_step, alpha, batch=batch, seed=seed)
    inserted = got.rows[0, 0].numpy()  # the origin of a transition, told by its row
    first, stop = max(length - columns, 0) * environments, (length - n_step + 1) * environments
    assert first <= inserted.min() <= inserted.max() < stop
    place = (np.arange(first, stop) // environments % columns) * environments + np.arange(first, stop) % environments
    mass = replay.fields["priority"].flatten().double().numpy()[place] ** alpha
    share = np.maximum(mass / mass.max(), 2.0**-32)
    count = np.bincount(inserted - first, minlength=stop - first)
    assert (np.abs(count - batch * share / share.sum()) < 2.0).all()
    assert (got.index[0].numpy() == place[inserted - first]).all()


@settings(max_examples=60, deadline=None)
@given(
    columns=st.integers(5, 20),
    environments=st.integers(1, 4),
    bars=st.lists(st.integers(4, 60), min_size=2, max_size=4),
    n_step=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_even_draws_are_those_of_equal_masses(columns, environments, bars, n_step, seed):
    """A pack in which nobody prioritises computes the places that a member without priorities draws in a mixed one."""
    replay, walked = (
        make_replay(len(bars), columns * environments, environments, torch.device("cpu")),
        torch.tensor(bars),
    )
    replay.fields["priority"].fill_(0.7)
    u = torch.from_numpy(np.random.default_rng(seed).random((len(bars), 33), np.float32))
    u[:, :2] = torch.tensor([0.0, LARGEST_U])
    mixed = drawn(replay, walked, n_step, alpha=0.0, u=u)
    even = sample(replay, walked, n_step, torch.full((len(bars),), 0.9), None, u)
    assert torch.equal(even.index, mixed.index)
    assert torch.equal(even.weight, mixed.weight)


def test_a_new_transition_takes_the_largest_priority_so_far():
    replay, bars = ring(3, 8, 2)
    assert replay.max_priority.tolist() == [1.0]
    alive = torch.tensor([True])
    update_priorities(replay, torch.tensor([[0, 3]]), torch.tensor([[0.25, 2.3]]), alive)
    update_priorities(replay, torch.tensor([[3]]), torch.tensor([[0.5]]), alive)
    largest = np.float32(2.3) + np.float32(PRIORITY_FLOOR)  # not rounded, and remembered after it is written over
    assert replay.max_priority.item() == largest
    insert(replay, bars, **{name: torch.zeros(1, 2) for name in FIELDS if name != "priority"})
    stored = replay.fields["priority"].flatten()[:8].tolist()
    floored = [np.float32(0.25) + np.float32(PRIORITY_FLOOR), np.float32(0.5) + np.float32(PRIORITY_FLOOR)]
    assert stored == [floored[0], 1.0, 1.0, floored[1], 1.0, 1.0, largest, largest]


def test_a_replay_restored_from_its_tensors_goes_on_alike():
    replay, bars = ring(3, 4, 2)
    update_priorities(replay, torch.tensor([[1, 2]]), torch.tensor([[5.0, 0.2]]), torch.tensor([True]))
    restored = make_replay(1, 8, 2, torch.device("cpu"))
    for name, tensor in restored.tensors().items():
        tensor.copy_(replay.tensors()[name])
    for each in (replay, restored):
        insert(each, bars, **{name: torch.zeros(1, 2) for name in FIELDS if name != "priority"})
    assert restored.fields["priority"][0, 3].min() > 5.0
    assert all(torch.equal(tensor, replay.tensors()[name]) for name, tensor in restored.tensors().items())


def test_overwriting_a_column_forgets_its_priority():
    replay, bars = ring(4, 4, 2)
    update_priorities(replay, torch.tensor([[0, 1, 2]]), torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([True]))
    insert(replay, bars, **{name: torch.zeros(1, 2) for name in FIELDS if name != "priority"})
    nine = np.float32(9.0) + np.float32(PRIORITY_FLOOR)
    assert replay.fields["priority"].flatten().tolist()[:4] == [nine, nine, np.float32(PRIORITY_FLOOR), 1.0]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_duplicates_in_a_batch_take_the_largest(order):
    replay, _ = ring(4, 4, 1)
    index, p = torch.tensor([2, 0, 2, 2]), torch.tensor([0.5, 0.1, 4.0, 0.25])
    update_priorities(replay, index[order][None], p[order][None], torch.tensor([True]))
    stored = (replay.fields["priority"].flatten() - PRIORITY_FLOOR).tolist()
    assert stored == pytest.approx([0.1, 1 - PRIORITY_FLOOR, 4.0, 1 - PRIORITY_FLOOR])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_priority_that_is_not_finite_writes_nothing(bad):
    replay, _ = ring(4, 4, 1)
    update_priorities(replay, torch.tensor([[0, 1, 1]]), torch.tensor([[bad, bad, 0.5]]), torch.tensor([True]))
    half = np.float32(0.5) + np.float32(PRIORITY_FLOOR)
    assert replay.fields["priority"].flatten().tolist() == [1.0, half, 1.0, 1.0]
    assert replay.max_priority.tolist() == [1.0]


def test_zero_and_negative_priorities_can_still_be_drawn():
    replay, bars = ring(3, 3, 1)
    update_priorities(replay, torch.tensor([[0, 1, 2]]), torch.tensor([[0.0, -3.0, 0.0]]), torch.tensor([True]))
    assert (replay.fields["priority"] == np.float32(PRIORITY_FLOOR)).all()
    assert drawn(replay, bars, batch=3).index.tolist() == [[0, 1, 2]]


def test_members_that_are_not_alive_keep_every_bit():
    replay, _ = ring(5, 5, 2, members=3)
    before = {name: tensor.clone() for name, tensor in replay.tensors().items()}
    index, p = torch.tensor([[0, 4]] * 3), torch.full((3, 2), 7.0)
    update_priorities(replay, index, p, torch.tensor([True, False, True]))
    after = replay.tensors()
    assert all(torch.equal(after[name][1], tensor[1]) for name, tensor in before.items())
    assert not torch.equal(after["replay/priority"][[0, 2]], before["replay/priority"][[0, 2]])
    assert replay.max_priority[[0, 2]].min() > 7.0


@pytest.mark.parametrize(("columns", "environments", "batch"), [(7, 3, 5), (32, 4, 8), (61, 1, 13)])
def test_a_lane_depends_on_no_other(columns, environments, batch):
    """A member draws, weighs and writes the same bits alone, in a pack of 5 and in another lane."""
    g, members = np.random.default_rng(5), 5
    pack, bars = ring(columns + 4, columns, environments, members)
    bars = bars - torch.tensor([0, 0, 2, 0, 1])  # lanes need not have walked equally far
    priorities(pack, g.lognormal(0, 3, (members, columns * environments)).astype(np.float32))
    alpha, beta = (torch.from_numpy(g.random(members, np.float32)) for _ in range(2))
    u, p = (torch.from_numpy(g.random((members, batch), np.float32)) for _ in range(2))
    together = {}
    for lanes in ([0, 1, 2, 3, 4], [0], [1], [2], [3], [4], [4, 2]):
        part = make_replay(len(lanes), columns * environments, environments, torch.device("cpu"))
        for name, tensor in part.tensors().items():
            tensor.copy_(pack.tensors()[name][lanes])
        got = drawn(part, bars[lanes], 3, alpha[lanes], beta[lanes], u[lanes])
        update_priorities(part, got.index, p[lanes], torch.ones(len(lanes), dtype=torch.bool))
        outcome = {**vars(got), **part.tensors()}
        together = together or outcome
        for name, tensor in outcome.items():
            assert torch.equal(tensor, together[name][lanes]), (lanes, name)


def test_too_few_bars_for_a_window_give_weights_that_are_nan():
    replay, bars = ring(2, 8, 2)
    batch = drawn(replay, bars, n_step=3)
    assert batch.weight.isnan().all()
    assert (batch.index < 16).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_on_cuda_equals_eager_and_the_cpu():
    """Capture refuses any wait for the device; priorities, draws and weights are those of the CPU."""
    members, columns, environments, batch = 3, 40, 8, 32
    cpu, bars = ring(50, columns, environments, members)
    priorities(cpu, np.random.default_rng(6).lognormal(0, 2, (members, columns * environments)).astype(np.float32))
    u = torch.from_numpy(np.random.default_rng(7).random((20, members, batch), np.float32))
    runs = (("cpu", False), ("cuda", False), ("cuda", True), ("cuda", True))
    outcomes = [_rounds(cpu, bars, u, torch.device(device), captured) for device, captured in runs]
    for outcome in outcomes[1:]:
        assert torch.equal(outcome[0], outcomes[0][0])
        torch.testing.assert_close(outcome[1:], outcomes[0][1:], rtol=1e-6, atol=0.0)
        assert all(torch.equal(a, b) for a, b in zip(outcome, outcomes[1], strict=True))


def _rounds(source, bars, u, device, captured):
    """(indices and weights of one batch after the other, priorities at the end); `3 u` is each batch's new priority."""
    replay = make_replay(*source.fields["row"].flatten(1).shape, source.fields["row"].shape[2], device)
    start = {name: tensor.to(device) for name, tensor in source.tensors().items()}
    bars, u, now = bars.to(device), u.to(device), u[0].clone().to(device)
    half, alive = torch.full((len(bars),), 0.5, device=device), torch.ones(len(bars), dtype=torch.bool, device=device)
    index, weight = torch.zeros(now.shape, dtype=torch.int64, device=device), torch.zeros_like(now)

    def step():
        got = sample(replay, bars, 3, half, (half, half), now)
        update_priorities(replay, got.index, 3.0 * now, alive)
        index.copy_(got.index)
        weight.copy_(got.weight)

    if captured:
        step = _graph(step)
    for name, tensor in replay.tensors().items():
        tensor.copy_(start[name])
    seen = []
    for row in u:
        now.copy_(row)
        step()
        seen.append((index.cpu().clone(), weight.cpu().clone()))
    indices, weights = (torch.stack(parts) for parts in zip(*seen, strict=True))
    return indices, weights, replay.fields["priority"].cpu()


def _graph(step):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph.replay
