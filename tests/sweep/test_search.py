"""Which configurations a space gives: bounds, repeatability, no duplicates, exhaustion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.domains import Domain, parse_domain
from sweep.errors import ConfigError
from sweep.search import draw
from sweep.space import SearchSpace
from trainer.config import canonical_json


def space(**table) -> SearchSpace:
    return SearchSpace.parse(table)


def texts(found) -> list[str]:
    return [canonical_json(config) for config in found]


quantiles = st.floats(0.0, 1.0, exclude_max=True)


@given(quantiles, st.floats(1e-8, 1.0), st.floats(1.001, 1e6))
def test_continuous_values_stay_within_their_bounds_and_grow_with_the_quantile(u, low, ratio):
    for kind in ("uniform", "loguniform"):
        domain = Domain(kind, (low, low * ratio))
        assert low <= domain.at(u) <= low * ratio
        assert domain.at(u / 2) <= domain.at(u)


def test_loguniform_is_uniform_in_the_logarithm():
    assert Domain("loguniform", (1e-5, 1e-3)).at(0.5) == pytest.approx(1e-4)
    assert Domain("uniform", (2.0, 4.0)).at(0.25) == 2.5


def test_randint_excludes_its_upper_bound_and_reaches_every_value_equally():
    domain = parse_domain("k", {"randint": [2, 5]})
    assert [domain.at(u) for u in (0.0, 0.32, 0.34, 0.65, 0.67, 0.999)] == [2, 2, 3, 3, 4, 4]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_the_same_seed_gives_the_same_configurations_and_more_trials_extend_them(seed, trials):
    searched = space(learning_rate={"loguniform": [1e-4, 1e-2]}, discount={"uniform": [0.5, 0.9]})
    longer, _ = draw(searched, "random", trials + 3, seed)
    shorter, note = draw(searched, "random", trials, seed)
    assert texts(shorter) == texts(longer)[:trials]
    assert len(set(texts(longer))) == trials + 3
    assert note == ""


def test_another_seed_gives_other_configurations():
    searched = space(learning_rate={"loguniform": [1e-4, 1e-2]})
    assert texts(draw(searched, "random", 4, 0)[0]) != texts(draw(searched, "random", 4, 1)[0])


def test_a_further_searched_key_leaves_the_other_values_alone():
    one, _ = draw(space(learning_rate={"loguniform": [1e-4, 1e-2]}), "random", 5, 0)
    two, _ = draw(space(discount={"uniform": [0.5, 0.9]}, learning_rate={"loguniform": [1e-4, 1e-2]}), "random", 5, 0)
    assert [c.learning_rate for c in one] == [c.learning_rate for c in two]


def test_a_finite_space_is_searched_without_repeats_and_its_end_is_said():
    searched = space(n_step={"choice": [1, 3]}, batch_size={"choice": [16, 32, 64]})
    found, note = draw(searched, "random", 20, 0)
    assert len(set(texts(found))) == len(found) == 6
    assert "exhausted: 6 different configurations of the 20" in note


def test_equal_choices_count_once():
    found, note = draw(space(discount={"choice": [0.5, 0.5]}), "random", 3, 0)
    assert len(found) == 1
    assert "exhausted: 1 configuration of the 3" in note


def test_a_space_without_distributions_has_one_configuration():
    found, note = draw(space(epochs=7), "random", 8, 0)
    assert [c.epochs for c in found] == [7]
    assert "loguniform" in note


def test_a_grid_is_the_product_of_its_options_in_order():
    searched = space(n_step={"grid": [1, 3]}, batch_size={"choice": [16, 32]}, environments={"randint": [1, 3]})
    found, note = draw(searched, "grid", 8, 0)
    points = [(c.n_step, c.batch_size, c.environments) for c in found]
    assert points == [(n, b, e) for n in (1, 3) for b in (16, 32) for e in (1, 2)]
    assert note == ""


def test_a_grid_crosses_random_draws_so_that_each_draw_meets_every_value():
    searched = space(n_step={"grid": [1, 3]}, learning_rate={"loguniform": [1e-4, 1e-2]})
    found, _ = draw(searched, "random", 6, 0)
    assert [c.n_step for c in found] == [1, 3] * 3
    rates = [c.learning_rate for c in found]
    assert rates[0::2] == rates[1::2]
    assert len(set(rates)) == 3


def test_a_grid_search_refuses_continuous_distributions_and_too_few_trials():
    with pytest.raises(ConfigError, match=r"trainer.learning_rate: a grid search needs finitely many"):
        draw(space(learning_rate={"uniform": [0.1, 0.2]}), "grid", 8, 0)
    with pytest.raises(ConfigError, match=r"set sweep\.trials = 3"):
        draw(space(n_step={"grid": [1, 3, 5]}), "grid", 2, 0)


def test_an_impossible_combination_is_refused_with_the_values_that_met():
    searched = space(epochs={"choice": [5, 20]}, score_epochs={"choice": [5, 10]})
    with pytest.raises(ConfigError, match=r"score_epochs must not exceed epochs, but 10 > 5.*trainer.epochs = 5"):
        draw(searched, "random", 4, 0)


def test_distributions_reach_nested_tables():
    searched = space(market={"commission_bps": {"choice": [0.5, 5.0]}}, network={"trunk": {"grid": [[8, 8], [16, 8]]}})
    found, _ = draw(searched, "random", 4, 0)
    assert {(c.network.trunk, c.market.commission_bps) for c in found} == {
        ((8, 8), 0.5), ((16, 8), 0.5), ((8, 8), 5.0), ((16, 8), 5.0),
    }  # fmt: skip
