"""Training walks: rewards add up to the account, episodes start flat, flags say why they end."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_trial import started, tiny_spec

import numba_kernels as nk
from trainer import step
from trainer.config import MarketConfig
from trainer.market import FLAT, LONG, SHORT, TERMINATED, TRUNCATED, cost_row, target_of
from trainer.step import walk


def history(pack, bars):
    """(fields `[bars, P, E]`, equity after each bar, age after each bar) of further bars; the ring must hold them."""
    first, equities, ages = int(pack.counters["bars"][0]), [], []
    original = pack.walks.equity

    def restart(walks, *rest):
        equities.append(original.clone())
        ages.append(walks.age.clone())
        return unchanged(walks, *rest)

    unchanged = step.restart
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "restart", restart)
        for _ in range(bars):
            walk(pack)
    columns = [(first + bar) % pack.replay.columns for bar in range(bars)]
    fields = {name: tensor[:, columns].transpose(0, 1) for name, tensor in pack.replay.fields.items()}
    return fields, torch.stack(equities), torch.stack(ages)


@pytest.fixture(scope="module")
def pack(market_file):
    return started(tiny_spec(market_file, ["base 0 0", "base 1 1"], replay_capacity=1024, epsilon_end=1.0))


def test_rewards_of_an_episode_sum_to_the_log_of_its_equity(pack):
    """Unscaled; float32 storage of the reward limits the comparison."""
    fields, equity, ages = history(pack, 60)
    reward = fields["reward"].double() / pack.signals["reward_scale"].double()[None, :, None]
    checked = 0
    for member, walked in np.ndindex(*ages.shape[1:]):
        since = None
        for bar in range(60):
            if ages[bar, member, walked] == 1:
                since, total = bar, 0.0
            if since is None:
                continue
            total += reward[bar, member, walked].item()
            assert total == pytest.approx(np.log(equity[bar, member, walked].item()), abs=1e-7)
            checked += 1
    assert checked > 200


def test_transitions_follow_each_other_and_end_as_flagged(pack):
    fields, _, ages = history(pack, 60)
    row, flags = fields["row"], fields["flags"]
    assert set(flags.unique().tolist()) <= {0, TERMINATED, TRUNCATED}
    goes_on = flags[:-1] == 0
    assert torch.equal(row[1:][goes_on], row[:-1][goes_on] + 1)
    assert torch.equal(fields["target"][1:][goes_on], fields["executed"][:-1][goes_on])
    assert (fields["target"][1:][~goes_on] == 0).all()
    assert (ages[1:][~goes_on] == 1).all()
    assert ages.max() == pack.spec.trainer.episode_bars
    assert (flags[ages == pack.spec.trainer.episode_bars] != 0).all()


def test_rewards_are_in_train_volatilities(pack):
    for member, fold in ((0, 0), (1, 1)):
        table = pack.table
        returns = []
        for symbol in range(2):
            start, stop = table.rows(symbol, table.folds[fold].spans["train"])
            returns.append(np.diff(np.log(table.close[start:stop])))
        volatility = np.concatenate(returns).std(ddof=1)
        assert table.train_volatility(fold) == pytest.approx(volatility)
        assert pack.signals["reward_scale"][member].item() == pytest.approx(1 / volatility, rel=1e-6)


def test_the_action_changes_the_reward(pack):
    """The same bar under all seven targets: seven results, flat earns nothing."""
    market = pack.market
    rewards = []
    for choice in range(7):
        state = [torch.tensor([[40]]), torch.tensor([[0]]), torch.zeros(1, 1).double(), torch.ones(1, 1).double()]
        reward, bankrupt = torch.zeros(1, 1).double(), torch.zeros(1, 1, dtype=torch.int32)
        chosen = torch.tensor([[choice]])
        nk.market_step(market.open, market.close, market.years, *state, chosen, market.costs[:1], reward, bankrupt)
        rewards.append(reward.item())
    assert len(set(rewards)) == 7
    assert rewards[0] == 0.0


@given(direction=st.integers(0, 2), magnitude=st.integers(0, 2))
def test_targets_have_the_exposure_that_the_branches_name(direction, magnitude):
    target = target_of(torch.tensor([direction]), torch.tensor([magnitude])).item()
    sign = {SHORT: -1, FLAT: 0, LONG: 1}[direction]
    assert nk.EXPOSURES[target] == pytest.approx(sign * (magnitude + 1) / 3)


def test_costs_are_fractions():
    market = MarketConfig(commission_bps=1.0, half_spread_bps=2.0, slippage_bps=3.0, financing_rate=0.1)
    assert cost_row(market) == pytest.approx([6e-4, 0.1, 0.01, 0.0, 0.05])
