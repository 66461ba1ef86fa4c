import numpy as np
import pandas as pd
import pytest

from analysis.statistics import chaos_floor, chaos_of_pairs


def runs(rng, configs, seeds, chaos, seed_sd):
    """(base, noise, configuration) of runs: 0.5 a configuration, `seed_sd` a seed, `chaos` a run."""
    own = np.repeat(0.5 * rng.standard_normal(configs), seeds) + seed_sd * rng.standard_normal(configs * seeds)
    base, noise = own + chaos * rng.standard_normal((2, configs * seeds))
    return base, noise, np.repeat(np.arange(configs), seeds)


def frame(base, noise, configs):
    index = {"config": configs, "seed": np.arange(len(configs))}
    arms = {"base": base, "noise": noise}
    return pd.concat([pd.DataFrame({**index, "arm": arm, "sharpe": arms[arm]}) for arm in arms], ignore_index=True)


def test_chaos_and_seeds_are_told_apart():
    found = chaos_of_pairs(*runs(np.random.default_rng(0), 40, 40, 0.3, 0.4))
    assert (found.pairs, found.configurations, found.identical) == (1600, 40, 0)
    assert found.chaos == pytest.approx(0.3, rel=0.06)
    assert found.seeds == pytest.approx(0.5, rel=0.06)  # seeds differ by chaos too
    assert found.share == pytest.approx(0.36, abs=0.05)
    assert found.share == pytest.approx(found.chaos**2 / found.seeds**2)


@pytest.mark.parametrize(("chaos", "seed_sd"), [(0.3, 0.4), (0.4, 0.0), (0.05, 0.4)])
def test_intervals_cover(chaos, seed_sd):
    rng, hits = np.random.default_rng(1), []
    for _ in range(400):
        found = chaos_of_pairs(*runs(rng, 4, 5, chaos, seed_sd))
        truth = (chaos, np.hypot(chaos, seed_sd), chaos**2 / (chaos**2 + seed_sd**2))
        bounds = (found.chaos_interval, found.seeds_interval, found.share_interval)
        hits.append([low <= value <= high for value, (low, high) in zip(truth, bounds, strict=True)])
    assert np.mean(hits, axis=0) == pytest.approx([0.95, 0.95, 0.95], abs=0.035)


def test_a_frame_of_scores_is_paired_by_configuration_and_seed():
    base, noise, configs = runs(np.random.default_rng(2), 3, 4, 0.2, 0.5)
    scores = frame(base, noise, configs).sample(frac=1.0, random_state=0)
    assert chaos_floor(scores).chaos == pytest.approx(chaos_of_pairs(base, noise, configs).chaos)
    absent = scores.copy()
    absent.loc[absent["arm"].eq("noise") & absent["seed"].eq(0), "sharpe"] = np.nan
    assert chaos_floor(absent).pairs == 11
    assert "from 12 pairs in 3 configurations (0 identical)" in chaos_floor(scores).text


def test_a_trainer_without_chaos_has_none():
    base, _, configs = runs(np.random.default_rng(3), 3, 4, 0.2, 0.5)
    found = chaos_of_pairs(base, base, configs)
    assert (found.chaos, found.share, found.share_interval, found.identical) == (0.0, 0.0, (0.0, 0.0), 12)
    assert found.seeds > 0.0
    still = chaos_of_pairs(np.zeros(4), np.zeros(4), [0, 0, 1, 1])
    assert np.isnan(still.share)


def test_one_seed_a_configuration_knows_chaos_alone():
    found = chaos_of_pairs([0.1, 0.4, 0.9], [0.2, 0.3, 0.7], [0, 1, 2])
    assert found.chaos == pytest.approx(np.sqrt(np.mean([0.01, 0.01, 0.04]) / 2.0))
    assert found.chaos_interval[0] < found.chaos < found.chaos_interval[1]
    assert np.isnan([found.seeds, found.share, *found.seeds_interval, *found.share_interval]).all()
    assert "n/a" in found.text


def test_without_the_arm_the_arms_are_named():
    base, noise, configs = runs(np.random.default_rng(4), 2, 2, 0.2, 0.5)
    scores = frame(base, noise, configs)
    with pytest.raises(ValueError, match=r"no arm 'noise' in the scores; there are \['base'\]"):
        chaos_floor(scores[scores["arm"] == "base"])
    scores.loc[scores["arm"] == "noise", "sharpe"] = np.nan
    with pytest.raises(ValueError, match="no seed has a score in both"):
        chaos_floor(scores)
