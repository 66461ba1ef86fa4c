"""The C51 loss of two branches: published vectors, mass, its gradient, selection, mixture, masking and priority."""

import numpy as np
import pytest
import torch
from c51_cases import FLAT, activations, loss_of, project, shown, taken, target_of
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import assert_members_independent

import numba_kernels as nk
from trainer.losses.c51 import make_support
from trainer.network import columns_of

CPU = torch.device("cpu")
ATOMS = torch.tensor([0.5, 1.0, 1.5])
NOW = [[0, 9, 0], [9, 0, 9], [0, 9, 0], [9, 9, 0], [9, 0, 9]]
REWARD, DISCOUNT = [0.5, 0.0, 0.5, 0.8, -0.1], [0.8, 1.0, 0.8, 0.0, 1.0]
RLAX = {  # rl.md 3.1: chosen next logits and cross-entropies of rlax's categorical TD and double-Q tests
    "td": (
        [[0, 0, 9], [1, 1, 1], [0, 0, 9], [1, 1, 1], [0, 9, 9]],
        [8.998915, 3.6932087, 8.998915, 0.69320893, 5.1929307],
    ),
    "double_q": (
        [[0, 0, 9], [9, 9, 0], [9, 0, 9], [9, -9, 0], [9, -9, 0]],
        [8.998915, 5.192931, 5.400247, 0.693209, 0.693431],
    ),
}


def same_for_all(logits):
    """`[P, 1, K]` logits as those of each of three actions of both branches."""
    return shown(torch.tensor(logits, dtype=torch.float32)[:, None, None].expand(-1, -1, 3, -1))


@pytest.mark.parametrize("name", list(RLAX))
def test_published_cross_entropies(name):
    later, expected = RLAX[name]
    action = torch.zeros(5, 1, dtype=torch.int64)
    rewards, discounts = torch.tensor(REWARD)[:, None], torch.tensor(DISCOUNT)[:, None]
    next_state = same_for_all(later)
    loss = loss_of(same_for_all(NOW), next_state, next_state, (action, action), ATOMS, rewards, discounts)
    np.testing.assert_allclose(loss.value, expected, rtol=1e-5)


# rl.md 3.1, Dopamine: masses at atoms, projected onto a support. The operation is linear, so each atom goes through it
# as a certain return (discount 0) with its mass.
DOPAMINE = [
    ([0, 2, 4, 6, 8], [0.1, 0.6, 0.1, 0.1, 0.1], [4, 5, 6, 7, 8], [0.8, 0, 0.1, 0, 0.1]),
    ([1, 3, 4, 5, 6], [0.1, 0.2, 0.5, 0.1, 0.1], [4, 5, 6, 7, 8], [0.8, 0.1, 0.1, 0, 0]),
    ([8, 9, 10, 12, 14], [0.1, 0.2, 0.4, 0.1, 0.2], [0, 4, 8, 12, 16], [0, 0, 0.45, 0.45, 0.1]),
    ([4, 3, 2, 1, 0], [0.1, 0.2, 0.1, 0.3, 0.3], [3, 4, 5, 6, 7], [0.9, 0.1, 0, 0, 0]),
    ([4, 5, 6, 7, 8], [0.2, 0.5, 0.1, 0.1, 0.1], [4, 5, 6, 7, 8], [0.2, 0.5, 0.1, 0.1, 0.1]),
]


def project_atoms(atoms, masses, support):
    certain, zero = torch.full((1, len(atoms), len(support)), 1.0 / len(support)), torch.zeros(1, len(atoms))
    rewards = torch.tensor(np.asarray(atoms), dtype=torch.float32)[None]
    m = project(certain, rewards, zero, torch.tensor(np.asarray(support), dtype=torch.float32))
    return torch.tensor(np.asarray(masses), dtype=torch.float32) @ m[0]


@pytest.mark.parametrize(("atoms", "masses", "support", "expected"), DOPAMINE)
def test_published_projections(atoms, masses, support, expected):
    np.testing.assert_allclose(project_atoms(atoms, masses, support), expected, atol=1e-6)


@pytest.mark.parametrize(("case", "reward", "discount"), [(0, -8.0, 2.0), (3, 7.0, -1.0), (4, 0.0, 1.0)])
def test_published_projections_whose_source_is_a_shifted_support(case, reward, discount):
    """[0, 2, 4, 6, 8] = -8 + 2 [4..8] and [4, 3, 2, 1, 0] = 7 - [3..7]: one sample with that reward and discount."""
    _, p, support, expected = DOPAMINE[case]
    place = torch.tensor([[reward]]), torch.tensor([[discount]])
    np.testing.assert_allclose(
        project(torch.tensor([[p]]), *place, torch.tensor(support).float())[0, 0], expected, atol=1e-6
    )


def test_published_projection_of_values_that_are_no_distribution():
    """rlax `L2ProjectTest`."""
    old = np.arange(-1, 1.0, 0.25)
    first, second = old * np.tile([0, 1], 4), (old + 1) * np.tile([1, 0], 4)
    new = np.arange(-1, 1.0, 0.5)
    np.testing.assert_allclose(project_atoms(old, first, new), [-0.375, -0.5, 0.0, 0.875], atol=1e-6)
    np.testing.assert_allclose(project_atoms(old + 1, second, new + 1), [0.0, 0.5, 1.0, 1.5], atol=1e-6)


def scattered(p, reward, discount, support):
    """Algorithm 1 of Bellemare, Dabney, Munos 2017 in its scatter form, float64, one atom at a time."""
    p, reward, discount, support = (np.asarray(a, np.float64) for a in (p, reward, discount, support))
    out, spacing = np.zeros(p.shape), (support[-1] - support[0]) / (len(support) - 1)
    for index in np.ndindex(p.shape):
        moved = np.clip(reward[index[:2]] + discount[index[:2]] * support[index[2]], support[0], support[-1])
        b = min(max((moved - support[0]) / spacing, 0.0), len(support) - 1)
        low = int(np.floor(b))
        out[(*index[:2], low)] += p[index] * (1 - (b - low))
        out[(*index[:2], min(low + 1, len(support) - 1))] += p[index] * (b - low)
    return out


@settings(max_examples=60, deadline=None)
@given(
    atoms=st.integers(2, 96),
    v_max=st.sampled_from([0.5, 1.0, 10.0, 200.0]),
    spread=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_scatter_form_and_keeps_the_mass(atoms, v_max, spread, seed):
    g = np.random.default_rng(seed)
    support = torch.linspace(-v_max, v_max, atoms)
    p = torch.tensor(g.dirichlet(np.full(atoms, 0.5), (2, 5)), dtype=torch.float32)
    reward = torch.tensor(g.normal(0, spread * v_max, (2, 5)), dtype=torch.float32)
    discount = torch.tensor(g.choice([0.0, 0.02, 0.729, 0.99, 1.0, 3.0], (2, 5)), dtype=torch.float32)
    got = project(p, reward, discount, support)
    np.testing.assert_allclose(got.double().sum(-1), 1.0, atol=2e-6)
    np.testing.assert_allclose(got, scattered(p, reward, discount, support), atol=atoms * 1e-6)
    assert (got >= -1e-6).all()


RANDOM = torch.Generator().manual_seed(4)
CORNERS = {  # n-step return `[3, 64]` in units of the atoms' spacing, and discount
    "random": (8.0 * torch.randn(3, 64, generator=RANDOM), torch.rand(3, 64, generator=RANDOM)),
    "clamped low": (torch.full((3, 64), -1e6), torch.full((3, 64), 0.9)),
    "clamped high": (torch.full((3, 64), 1e6), torch.full((3, 64), 0.9)),
    "every shifted atom on an atom": (torch.arange(-96.0, 96.0).view(3, 64), torch.ones(3, 64)),
    "terminal": (8.0 * torch.randn(3, 64, generator=RANDOM), torch.zeros(3, 64)),
    "terminal on an atom": (torch.arange(-96.0, 96.0).view(3, 64), torch.zeros(3, 64)),
    "one ulp below the top": (
        torch.full((3, 64), float(np.nextafter(np.float32(25), np.float32(0)))),
        torch.zeros(3, 64),
    ),
    "identity": (torch.zeros(3, 64), torch.ones(3, 64)),
}


@pytest.mark.parametrize("atoms", [2, 51])
@pytest.mark.parametrize("name", list(CORNERS))
def test_mass_is_one(name, atoms):
    support, reward = make_support(10.0, atoms, CPU), CORNERS[name][0] * (20.0 / (atoms - 1))
    p = torch.softmax(3.0 * torch.randn(3, 64, atoms, generator=torch.Generator().manual_seed(5)), -1)
    m = project(p, reward, CORNERS[name][1], support)
    assert m.min() >= -1e-6
    np.testing.assert_allclose(m.double().sum(-1), 1.0, rtol=0, atol=1e-6)
    if name == "identity":
        torch.testing.assert_close(m, p, rtol=0, atol=2e-6)
    if name.startswith("clamped"):
        edge = 0 if name == "clamped low" else -1
        assert (m.argmax(-1) == edge % atoms).all()
        np.testing.assert_allclose(m[..., edge], 1.0, rtol=0, atol=1e-6)
    if name.startswith("terminal"):  # only the reward is left
        mean = (m.double() * torch.linspace(-10, 10, atoms, dtype=torch.float64)).sum(-1)
        np.testing.assert_allclose(mean, reward.double().clamp(-10, 10), rtol=0, atol=4e-5)


def random_heads(seed, spread=1.0):
    """Head outputs of three members and six samples, five atoms."""
    g = torch.Generator().manual_seed(seed)
    return activations(*(spread * torch.randn(3, 6, *shape, generator=g) for shape in ((5,), (3, 5), (3, 5))))


def dueling(streams):
    """Logits of both branches `[P, B, 3, 5]` of head outputs without bias, written out."""
    places = columns_of(5)
    value = streams[..., None, :5]
    parts = [
        streams[..., places[b].start : places[b].start + 15].unflatten(-1, (3, 5)) for b in ("direction", "magnitude")
    ]
    return [value + a - a.mean(2, keepdim=True) for a in parts]


def select(logits, action):
    return logits.gather(2, action[..., None, None].expand(*action.shape, 1, 5)).squeeze(2)


def written_out(heads, actions, support, reward, discount, weight):
    """float64, by autograd: sample losses, priorities, next actions, gradient at the head outputs."""
    act, later, valued = (h.streams.double().requires_grad_() for h in heads)
    support = support.double()
    chosen = [(torch.softmax(x, -1) * support).sum(-1).argmax(-1) for x in dueling(later)]
    p_d, p_m = (torch.softmax(select(x, a), -1) for x, a in zip(dueling(valued), chosen, strict=True))
    p = torch.where((chosen[0] == FLAT)[..., None], p_d, 0.5 * (p_d + p_m)).detach()
    m = torch.tensor(
        np.stack([scattered(p[i : i + 1], reward[i : i + 1], discount[i : i + 1], support) for i in range(3)])
    )[:, 0]
    cross = [-(m * torch.log_softmax(select(x, a), -1)).sum(-1) for x, a in zip(dueling(act), actions, strict=True)]
    counted = (actions[0] != FLAT).double()
    sample = 0.5 * (cross[0] + cross[1] * counted)
    (gradient,) = torch.autograd.grad((weight * sample).mean(1).sum(), [act])
    entropy = -torch.xlogy(m, m).sum(-1)
    priority = (cross[0] - entropy).clamp_min(0) + (cross[1] - entropy).clamp_min(0) * counted
    return sample.detach(), priority.detach(), chosen, gradient


def example():
    """(heads, actions, support, reward, discount, weight)."""
    g = torch.Generator().manual_seed(0)
    actions = tuple(torch.randint(3, (3, 6), generator=g) for _ in range(2))
    rest = torch.randn(3, 6, generator=g), torch.rand(3, 6, generator=g), 0.5 + torch.rand(3, 6, generator=g)
    return [random_heads(s) for s in (1, 2, 3)], actions, make_support(2.0, 5, CPU), *rest


def test_equals_autograd_in_float64():
    heads, actions, support, *rest = example()
    sample, priority, chosen, gradient = written_out(heads, actions, support, *rest)
    loss = loss_of(*heads, actions, support, *rest)
    torch.testing.assert_close(loss.sample.double(), sample, rtol=2e-6, atol=1e-6)
    torch.testing.assert_close(loss.value.double(), (rest[2] * sample).mean(1), rtol=2e-6, atol=1e-6)
    torch.testing.assert_close(loss.priority.double(), priority, rtol=1e-5, atol=1e-6)
    assert torch.equal(loss.next_direction, chosen[0])
    assert torch.equal(loss.next_magnitude, chosen[1])
    torch.testing.assert_close(loss.streams.double(), gradient, rtol=1e-5, atol=1e-7)
    assert len(set(chosen[0].flatten().tolist())) == 3


def test_priority_is_the_sum_of_divergences_and_opposite_errors_do_not_cancel():
    """rl.md 3.5: KL([.5, .5] || [.9, .1]) = .5 log(.5/.9) + .5 log(.5/.1) = .5108256; the other way .3680642.

    On atoms -1, 1 the first sample's branches err by -.8 and +.8: their sum is 0, the priority 2 * .5108256. Second
    sample: the direction is exact, so only the magnitude's .3680642. Third: flat, so only the direction's .5108256.
    Fourth: the nearly certain target [1, 1e-30] against [.5, .5] twice, 2 log 2.
    """
    half, low, high, sure = [0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [1.0, 1e-30]
    logs = lambda *rows: torch.tensor([rows]).log()
    actions = torch.tensor([[0, 2, FLAT, 0]]), torch.tensor([[0, 1, 2, 0]])
    act = taken(logs(low, low, low, half), logs(high, half, high, half), actions)
    target = shown(logs(half, low, half, sure).unsqueeze(2).expand(-1, -1, 3, -1))
    loss = loss_of(act, target, target, actions, torch.tensor([-1.0, 1.0]), weight=torch.full((1, 4), 3.0))
    expected = [[2 * 0.5108256, 0.3680642, 0.5108256, 2 * np.log(2)]]
    np.testing.assert_allclose(loss.priority, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
def test_priority_is_never_negative(scale):
    """Targets equal to the prediction to rounding, where the divergence is a difference of near equals."""
    logits = scale * torch.randn(3, 400, 51, generator=torch.Generator().manual_seed(6))
    act = shown(logits.unsqueeze(2).expand(-1, -1, 3, -1))
    action = torch.zeros(3, 400, dtype=torch.int64)
    loss = loss_of(act, act, act, (action, action), make_support(10.0, 51, CPU))
    assert loss.priority.min() >= 0
    assert loss.priority.max() < 1e-5 * max(scale, 10.0)  # logits of 400 are only known to 3e-5


def test_masked_samples_are_left_out_exactly():
    """NaN in the magnitude outputs of a flat sample changes no bit of anything."""
    heads, actions, *rest = example()
    loss = loss_of(*heads, actions, *rest)
    flat = actions[0] == FLAT
    assert flat.any()
    heads[0].streams[..., columns_of(5)["magnitude"]].masked_fill_(flat[..., None], float("nan"))
    again = loss_of(*heads, actions, *rest)
    for name in ("value", "sample", "priority", "streams"):
        assert torch.equal(getattr(again, name), getattr(loss, name)), name


@pytest.mark.parametrize("fault", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", ["act", "later", "valued", "reward", "discount"])
def test_a_fault_stays_in_its_sample(fault, place):
    heads, actions, support, reward, discount, weight = example()
    actions[0][1, 2] = 0
    clean = loss_of(*heads, actions, support, reward, discount, weight)
    spoiled = dict(zip(("act", "later", "valued"), (h.streams for h in heads), strict=True))
    spoiled |= {"reward": reward, "discount": discount}
    spoiled[place][1, 2] = fault
    got = loss_of(*heads, actions, support, reward, discount, weight)
    others = torch.ones(3, 6, dtype=torch.bool)
    others[1, 2] = False
    for name in ("sample", "priority", "streams"):
        assert torch.equal(getattr(got, name)[others], getattr(clean, name)[others]), name
    if place != "later":  # a broken choice is still some choice
        assert got.sample[1, 2].isnan()
        assert got.streams[1, 2, :5].isnan().all()


def test_members_are_independent():
    """The successors come from a fixed generator: a broken choice of the next action is still some choice."""
    _, actions, _, *rest = example()
    supports = torch.stack([make_support(v_max, 5, CPU) for v_max in (0.5, 2.0, 10.0)])

    def everything(act, valued, offset, reward, discount, weight, support, direction, magnitude):
        sides = [activations(x[..., 0, :], x, x) for x in (act, 0.5 * act.nan_to_num(), valued)]
        for side in sides:
            side.offset.copy_(offset)
        loss = loss_of(*sides, (direction, magnitude), support, reward, discount, weight)
        return loss.value, loss.sample, loss.priority, loss.streams

    g = torch.Generator().manual_seed(8)
    outputs = [torch.randn(3, 6, 3, 5, generator=g) for _ in range(2)]
    assert_members_independent(everything, *outputs, torch.randn(3, 6, 5, generator=g), *rest, supports, *actions)


def test_supports_of_members_are_their_own():
    """The certain return 1 on atoms [-1, 0, 1] and on [-4, 0, 4]: all mass on the last, and a quarter of it."""
    supports = torch.stack([make_support(v_max, 3, CPU) for v_max in (1.0, 4.0)])
    m = project(torch.full((2, 1, 3), 1 / 3), torch.ones(2, 1), torch.zeros(2, 1), supports)
    torch.testing.assert_close(m, torch.tensor([[[0.0, 0.0, 1.0]], [[0.0, 0.75, 0.25]]]), rtol=0, atol=1e-6)


def test_flat_masks_the_magnitude_branch():
    heads, _, support, *rest = example()
    direction, magnitude = torch.tensor([[0, FLAT, 2] * 2] * 3), torch.tensor([[2, 2, 0] * 2] * 3)
    gradient = loss_of(*heads, (direction, magnitude), support, *rest).streams[:, :3]
    branch = {
        b: gradient[..., columns_of(5)[b]][..., :15].unflatten(-1, (3, 5)).abs().sum(-1)
        for b in ("direction", "magnitude")
    }
    assert (branch["magnitude"][:, 1] == 0).all()
    assert (branch["magnitude"][:, [0, 2]] > 0).all()
    assert (branch["direction"] > 0).all()


def branch(*atoms):
    """Logits `[1, 1, 3, 3]` that put nearly all mass of each action on the atom given for it."""
    return torch.nn.functional.one_hot(torch.tensor([[atoms]]), 3).float() * 60.0


SUPPORT = make_support(1.0, 3, CPU)
LOW, MIDDLE, HIGH = range(3)
STILL = torch.zeros(1, 1), torch.ones(1, 1)  # reward and discount


def test_the_online_network_selects_and_the_target_network_evaluates():
    online, other = shown(branch(LOW, MIDDLE, HIGH)), shown(branch(HIGH, HIGH, LOW))  # online: long; target rather not
    torch.testing.assert_close(target_of(online, other, *STILL, SUPPORT)[0, 0], torch.tensor([1.0, 0.0, 0.0]))
    m = target_of(other, online, *STILL, SUPPORT)  # a tie between short and flat: the first is taken
    torch.testing.assert_close(m[0, 0], torch.tensor([1.0, 0.0, 0.0]))


def test_next_distribution_is_the_mixture_of_the_branches():
    """The mean target of branching: greedy branch values -1 and 1 give 0, and the mass stays 1."""
    online = shown(branch(LOW, MIDDLE, HIGH))
    valued = taken(branch(LOW, LOW, LOW)[:, :, 0], branch(HIGH, HIGH, HIGH)[:, :, 0], (torch.tensor([[2]]),) * 2)
    torch.testing.assert_close(target_of(online, valued, *STILL, SUPPORT)[0, 0], torch.tensor([0.5, 0.0, 0.5]))


def test_next_flat_stands_alone():
    online = taken(branch(HIGH, HIGH, HIGH)[:, :, 0], branch(HIGH, HIGH, HIGH)[:, :, 0], (torch.tensor([[FLAT]]),) * 2)
    valued = taken(branch(LOW, LOW, LOW)[:, :, 0], branch(HIGH, HIGH, HIGH)[:, :, 0], (torch.tensor([[FLAT]]),) * 2)
    torch.testing.assert_close(target_of(online, valued, *STILL, SUPPORT)[0, 0], torch.tensor([1.0, 0.0, 0.0]))


def test_mean_target_vector():
    """rl.md 3.2: r = 1, gamma = .9, greedy target values .5 and 1.5 give y = 1 + .9 * 1.0 = 1.9 for both branches."""
    support = make_support(4.0, 81, CPU)
    p = torch.zeros(1, 1, 81)
    p[0, 0, [int(torch.argmin((support - value).abs())) for value in (0.5, 1.5)]] = 0.5
    m = project(p, torch.tensor([[1.0]]), torch.tensor([[0.9]]), support)
    assert (m * support).sum().item() == pytest.approx(1.9, abs=2e-5)


def test_biases_enter_through_the_offsets():
    """Head outputs with their biases added equal head outputs beside their dueling offsets."""
    heads, actions, support, *rest = example()
    g = torch.Generator().manual_seed(9)
    value, branches = torch.randn(3, 1, 5, generator=g), [torch.randn(3, 3, 5, generator=g) for _ in range(2)]
    offset = torch.cat([value + b - b.mean(1, keepdim=True) for b in branches], 1)
    bias = activations(value, *(b.unsqueeze(1) for b in branches)).streams
    added = [type(h)(streams=h.streams + bias, offset=h.offset) for h in heads]
    beside = [type(h)(streams=h.streams, offset=offset) for h in heads]
    whole, parts = (loss_of(*x, actions, support, *rest) for x in (added, beside))
    for name in ("sample", "priority", "streams"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 96}, r"c51\(online\): 96 columns, 160 wanted for 21 atoms"),
        ({"atoms": 97}, r"c51\(support\): 97 atoms, 2 to 96 wanted"),
        ({"rows": 3}, r"c51\(online\): 3 rows, 4 wanted"),
    ],
)
def test_shapes_that_make_no_sense_are_refused(change, message):
    sizes = {"width": 160, "atoms": 21, "rows": 4} | change
    online, valued = torch.zeros(1, sizes["rows"], sizes["width"]), torch.zeros(1, 2, sizes["width"])
    offset, support = torch.zeros(1, 6, sizes["atoms"]), torch.zeros(1, sizes["atoms"])
    batch, action = torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.int64)
    inputs = (online, offset, valued, offset, action, action, batch, batch, batch, support)
    with pytest.raises(nk.ArgumentError, match=message):
        nk.c51(*inputs, batch.clone(), batch.clone(), action.clone(), action.clone(), torch.zeros_like(valued))


def test_support_is_symmetric_and_equally_spaced():
    support = make_support(10.0, 51, CPU)
    assert (support[0], support[-1]) == (-10.0, 10.0)
    assert abs(support[25]) < 1e-6
    torch.testing.assert_close(support.diff(), torch.full((50,), 0.4), rtol=1e-5, atol=0)
