"""n-step returns from the ring: published vectors, and a slow reference over random histories that wrap."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.market import TERMINATED, TRUNCATED
from trainer.replay import FIELDS, insert, make_replay, sample


def filled(columns, environments, rewards, flags):
    """(replay, bars) after inserting `[bars, E]` histories of one member; rows are unique and tell their origin."""
    replay = make_replay(1, columns * environments, environments, torch.device("cpu"))
    for bar, (reward, flag) in enumerate(zip(rewards, flags, strict=True)):
        index = bar * environments + torch.arange(environments)[None]
        values = {"row": index * 2, "target": index % 7, "executed": (index + 1) % 7, "direction": index % 3}
        values |= {
            "magnitude": (index + 1) % 3,
            "reward": torch.as_tensor(reward)[None],
            "flags": torch.as_tensor(flag)[None],
        }
        insert(replay, torch.tensor([bar]), **values)
    return replay, torch.tensor([len(rewards)])


def draw(replay, bars, n_step, discount, batch, seed=0):
    """A uniform batch."""
    u = torch.from_numpy(np.random.default_rng(seed).random((1, batch), np.float32))
    return sample(replay, bars, n_step, torch.tensor([discount]), None, u)


VECTORS = {  # rl.md 3.9: r = 1, 2, 3 and gamma = .9
    "whole window": ([0, 0, 0], 5.23, 0.729),
    "terminal after the second": ([0, TERMINATED, 0], 2.8, 0.0),
    "truncated after the second": ([0, TRUNCATED, 0], 2.8, 0.81),
    "terminal at the third": ([0, 0, TERMINATED], 5.23, 0.0),
    "truncated at the first": ([TRUNCATED, 0, 0], 1.0, 0.9),
}


@pytest.mark.parametrize("name", list(VECTORS))
def test_published_vectors(name):
    flags, returns, discount = VECTORS[name]
    replay, bars = filled(3, 1, np.array([[1.0], [2.0], [3.0]], np.float32), np.array(flags)[:, None])
    batch = draw(replay, bars, 3, 0.9, 1)
    assert batch.returns.item() == pytest.approx(returns, rel=1e-6)
    assert batch.discount.item() == pytest.approx(discount, rel=1e-6)
    steps = next((k + 1 for k, flag in enumerate(flags) if flag), 3)
    assert batch.rows[0, 2].item() == 2 * (steps - 1) + 1
    assert batch.targets[0, 2].item() == steps % 7
    assert batch.continues.item() == float(flags[0] == 0)


RLAX = {  # rlax NStepBootstrappedReturnsTest, n = 3: rewards, discounts, bootstrap values, returns
    "first row": ([1, 0, -1, 0, 1], [0.5, 0.9, 1, 0.5, 0.8], [3, 1, 5, -5, 3], [2.8, -3.15, 0.7, 1.7, 3.4]),
    "second row": (
        [0.5, 0.8, -0.7, 0, 2.1],
        [0.9, 0.5, 0.3, 0.8, 0.7],
        [-1.7, 1.2, 2.3, 2.2, 2.7],
        [1.2155, 0.714, 0.2576, 3.192, 3.99],
    ),
}


@pytest.mark.parametrize("name", list(RLAX))
def test_rlax_vectors(name):
    """rlax discounts every step anew, so each start is a member here, its rewards discounted beforehand.

    After the fifth step the trajectory is cut: the later windows are shorter and bootstrap at the cut, as rlax does.
    """
    rewards, discounts, values, expected = (np.array(row, np.float64) for row in RLAX[name])
    replay, steps = make_replay(5, 7, 1, torch.device("cpu")), np.arange(5)
    for bar in range(7):
        at = np.minimum(steps + bar, 4)
        power = np.array([np.prod(discounts[s : s + bar]) for s in steps])
        column = {name: torch.zeros(5, 1) for name in FIELDS if name != "priority"}
        column["row"] = torch.full((5, 1), bar)
        column["reward"] = torch.from_numpy(rewards[at] * power)[:, None]
        column["flags"] = torch.from_numpy(np.where(steps + bar == 4, TRUNCATED, 0))[:, None]
        insert(replay, torch.full((5,), bar), **column)
    batch = sample(replay, torch.full((5,), 7), 3, torch.ones(5), None, torch.zeros(5, 1))
    assert (batch.rows[:, 0] == 0).all()
    length = batch.rows[:, 2, 0].numpy()  # rows count bars here
    assert length.tolist() == [3, 3, 3, 2, 1]
    bootstrap = [np.prod(discounts[s : s + m]) * values[s + m - 1] for s, m in zip(steps, length, strict=True)]
    np.testing.assert_allclose(batch.returns[:, 0].numpy() + bootstrap, expected, rtol=1e-6)
    assert (batch.discount == 1).all()


def reference(history, start, walk, n_step, discount):
    """(return, discount, later row, later target) from the whole history `[bars, E]`, with nothing overwritten."""
    rewards, flags, environments = *history, history[0].shape[1]
    total, power = 0.0, 1.0
    for step in range(start, start + n_step):
        total, power = total + power * float(rewards[step, walk]), power * discount
        if flags[step, walk]:
            break
    index = step * environments + walk
    return total, 0.0 if flags[step, walk] == TERMINATED else power, 2 * index + 1, (index + 1) % 7


@settings(max_examples=40, deadline=None)
@given(
    columns=st.integers(6, 20),
    environments=st.integers(1, 4),
    extra=st.integers(-8, 45),
    n_step=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_never_across_an_end_or_the_write_position(columns, environments, extra, n_step, seed):
    g, length = np.random.default_rng(seed), max(columns + extra, n_step)
    rewards = g.normal(size=(length, environments)).astype(np.float32)
    flags = g.choice([0, 0, 0, 0, TERMINATED, TRUNCATED], (length, environments))
    replay, bars = filled(columns, environments, rewards, flags)
    batch = draw(replay, bars, n_step, 0.9, 16, seed)
    for b in range(16):
        index = int(batch.rows[0, 0, b]) // 2
        start, walk = divmod(index, environments)
        assert max(length - columns, 0) <= start <= length - n_step  # stored, and its window ends before the write head
        total, power, later, target = reference((rewards, flags), start, walk, n_step, 0.9)
        assert batch.returns[0, b].item() == pytest.approx(total, rel=1e-5, abs=1e-6)
        assert batch.discount[0, b].item() == pytest.approx(power, rel=1e-6)
        assert (batch.rows[0, 2, b], batch.targets[0, 2, b]) == (later, target)
        assert batch.next_row[0, b] == batch.rows[0, 0, b] + 1
        own = [int(x[0, b]) for x in (batch.targets[:, 0], batch.executed, batch.direction, batch.magnitude)]
        assert own == [index % 7, (index + 1) % 7, index % 3, (index + 1) % 3]


def test_every_stored_window_can_be_drawn():
    environments, columns, n_step, length = 2, 6, 3, 17
    zeros = np.zeros((length, environments), np.float32)
    replay, bars = filled(columns, environments, zeros, zeros.astype(np.int64))
    first, last = (length - columns) * environments, (length - n_step + 1) * environments
    batch = draw(replay, bars, n_step, 0.9, last - first)  # as many strata as windows
    assert sorted((batch.rows[0, 0] // 2).tolist()) == list(range(first, last))


def test_each_member_reads_its_own_ring_and_discount():
    replay = make_replay(2, 3, 1, torch.device("cpu"))
    for bar in range(3):
        whole = {name: torch.zeros(2, 1) for name in FIELDS if name != "priority"}
        whole["reward"] = torch.tensor([[1.0], [10.0]])
        insert(replay, torch.full((2,), bar), **whole)
    batch = sample(replay, torch.tensor([3, 3]), 3, torch.tensor([1.0, 0.5]), None, torch.zeros(2, 1))
    assert batch.returns.flatten().tolist() == [3.0, 17.5]
    assert batch.discount.flatten().tolist() == [1.0, 0.125]


def test_a_transition_takes_17_bytes():
    replay = make_replay(2, 64, 4, torch.device("cpu"))
    assert sum(tensor[0].numel() * tensor.element_size() for tensor in replay.fields.values()) == 17 * 64
    stored = sum(tensor.numel() * tensor.element_size() for tensor in replay.tensors().values())
    assert stored <= 32 * 2 * 64
