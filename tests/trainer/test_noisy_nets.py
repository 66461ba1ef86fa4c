"""NoisyNets: moments and rank of factorised noise (Fortunato et al. 2018), fresh draws, and no noise in evaluation."""

import math

import pytest
import torch
from tiny_trial import started, tiny_spec

from trainer import draws, noisy, sources
from trainer.draws import Draws
from trainer.evaluate import evaluate
from trainer.noisy import factor, normal, perturb

CPU = torch.device("cpu")
STEP = torch.zeros(2, dtype=torch.int64)


def weights(members=2, inputs=200, outputs=100):
    """Heads' hidden layers with mu = 0 and sigma = 1, so that the effective weights are the noise."""
    found = {}
    for layer in noisy.LAYERS:
        for name, rows in ((f"w_{layer}", inputs), (f"b_{layer}", 1)):
            found[name] = torch.zeros(members, rows, outputs)
            found[f"sigma_{name}"] = torch.ones(members, rows, outputs)
    return found


def drawn(step=STEP, purpose=draws.NOISE_ONLINE, on=(1.0, 1.0), seeds=(3, 4)):
    return perturb(weights(), Draws(list(seeds), CPU), purpose, step, torch.tensor(on))


def test_normal_numbers():
    values = normal(torch.rand(400_000, generator=torch.Generator().manual_seed(1)))
    assert values.mean().item() == pytest.approx(0.0, abs=0.01)
    assert values.var().item() == pytest.approx(1.0, abs=0.01)
    assert (values.pow(4).mean().item()) == pytest.approx(3.0, abs=0.1)
    assert torch.isfinite(normal(torch.tensor([0.0, 1.0 - 2.0**-24]))).all()


def test_moments_of_the_factor():
    """E f = 0 and E f^2 = E|x| = sqrt(2 / pi) = 0.7978846."""
    values = factor(normal(torch.rand(400_000, generator=torch.Generator().manual_seed(2))))
    assert values.mean().item() == pytest.approx(0.0, abs=0.01)
    assert values.square().mean().item() == pytest.approx(math.sqrt(2 / math.pi), abs=0.005)
    assert factor(torch.tensor([4.0, -9.0, 0.0])).tolist() == [2.0, -3.0, 0.0]


def test_variance_and_rank_of_the_weight_noise():
    """Var = (E f^2)^2 = 2 / pi = 0.6366, over many draws; each matrix is an outer product, so of rank 1."""
    found = [drawn(torch.full((2,), step))["w_v1"] for step in range(60)]
    assert torch.stack(found).var().item() == pytest.approx(2 / math.pi, abs=0.02)
    for matrix in found[0]:
        singular = torch.linalg.svdvals(matrix.double())
        assert singular[1] < 1e-5 * singular[0]


def test_bias_noise_is_that_of_the_outputs():
    found = drawn()
    ratio = found["w_d1"] / found["b_d1"]  # row i holds f(e_in_i) everywhere
    assert torch.allclose(ratio, ratio[..., :1].expand_as(ratio), rtol=1e-4)


def test_draws_differ_by_step_purpose_seed_and_layer_and_repeat_otherwise():
    base = drawn()
    assert torch.equal(base["w_v1"], drawn()["w_v1"])
    others = [drawn(STEP + 1), drawn(purpose=draws.NOISE_TARGET), drawn(purpose=draws.NOISE_WALK)]
    for other in others:
        assert not torch.equal(base["w_v1"], other["w_v1"])
    assert not torch.equal(base["w_v1"][0], base["w_v1"][1])
    assert not torch.equal(base["w_v1"], base["w_d1"])
    assert torch.equal(base["w_v1"][0], drawn(seeds=(3, 9))["w_v1"][0])


def test_a_member_without_noise_keeps_its_weights():
    found = drawn(on=(0.0, 1.0))
    assert found["w_m1"][0].count_nonzero() == 0
    assert found["w_m1"][1].count_nonzero() > 0


def test_online_and_target_are_perturbed_apart_and_anew_on_every_update(market_file, monkeypatch):
    pack, calls, original = started(tiny_spec(market_file)), [], sources.perturb

    def note(weights, draw, purpose, step, on):
        calls.append((purpose, int(step[0])))
        return original(weights, draw, purpose, step, on)

    monkeypatch.setattr(sources, "perturb", note)
    with torch.no_grad():
        sources.forward_batch(pack)
        pack.counters["updates"].add_(1)
        sources.forward_batch(pack)
    expected = [(draws.NOISE_ONLINE, 0), (draws.NOISE_TARGET, 0), (draws.NOISE_ONLINE, 1), (draws.NOISE_TARGET, 1)]
    assert calls == expected


def test_evaluation_uses_the_means_alone(market_file):
    pack = started(tiny_spec(market_file))
    with torch.no_grad():
        first = evaluate(pack, "validation")[0]
        start, stop = pack.layout.slices["noise"]
        pack.online.params[:, start:stop] = 1e3
        second = evaluate(pack, "validation")[0]
    assert (first.returns == second.returns).all()
    assert (first.targets == second.targets).all()
