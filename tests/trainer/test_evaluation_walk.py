"""The batched evaluation equals a walk that asks the network bar by bar, and its series belong to the stated bars."""

import numpy as np
import pytest
import torch
from tiny_trial import run, started, synthetic_bars, tiny_spec

import numba_kernels as nk
from trainer.columns import evaluation, max_drawdown
from trainer.config import DataConfig, MarketConfig
from trainer.data.source import load_table
from trainer.evaluate import evaluate, greedy_choices
from trainer.explore import greedy
from trainer.market import member_rows, target_of
from trainer.network import forward
from trainer.step import iterate, update

COSTLY = MarketConfig(half_spread_bps=20.0, financing_rate=0.1, borrow_rate=0.2, rebalance_band=0.4)
SPANS = ("train", "validation", "judge")


def trained(spec, updates=10):
    pack = started(spec)
    with torch.no_grad():
        for _ in range(updates):
            iterate(pack, diagnose=False)
    return pack


def walk_bar_by_bar(pack, member, span):
    """{timestamp: [(return, exposure, turnover) of each symbol]} by one forward and one market step a bar."""
    table, market = pack.table, pack.market
    bounds = table.folds[pack.spec.members[member].fold].spans[span]
    lane, norm = slice(member, member + 1), pack.online.norm()
    weights = {name: view[lane] for name, view in pack.online.weights.items()}
    norm = type(norm)(*(part[lane] for part in (norm.left, norm.right, norm.sigma, norm.on)))
    found = {}
    for symbol in range(len(table.symbols)):
        start, stop = table.rows(symbol, bounds)
        row, target = torch.tensor([[start]]), torch.tensor([[0]])
        weight, equity = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
        bankrupt, reward = torch.zeros(1, 1, dtype=torch.int32), torch.zeros(1, 1, dtype=torch.float64)
        for at in range(start, stop - 1):
            act = forward(weights, norm, market.observe(row, target))
            choice = target_of(*greedy(act, pack.support[lane]))
            before, moved = equity.item(), weight.item()
            state = (row, target, weight, equity)
            nk.market_step(market.open, market.close, market.years, *state, choice, market.costs[:1], reward, bankrupt)
            change = equity.item() / before - 1.0
            assert reward.item() == pytest.approx(np.log1p(change), abs=1e-12)
            found.setdefault(table.timestamp[at + 1], []).append((change, nk.EXPOSURES[target.item()], moved))
    return found


@pytest.mark.parametrize("market", [MarketConfig(), COSTLY], ids=["default", "costly"])
@pytest.mark.parametrize("span", SPANS)
def test_equals_the_bar_by_bar_walk(market_file, market, span):
    pack = trained(tiny_spec(market_file, ["base 0 0", "base 1 1", "base 2 0"], market=market))
    with torch.no_grad():
        walks = evaluate(pack, span)
        for member, walk in enumerate(walks):
            found = walk_bar_by_bar(pack, member, span)
            bounds = pack.table.folds[pack.spec.members[member].fold].spans[span]
            stamps = pack.table.timeline[bounds.start + 1 : bounds.stop].as_unit("ns").asi8
            assert len(walk.returns) == len(stamps)
            assert set(found) <= set(stamps)
            for at, stamp in enumerate(stamps):
                bars = found.get(stamp, [(0.0, 0.0, 0.0)])
                assert walk.returns[at] == pytest.approx(np.mean([bar[0] for bar in bars]), abs=1e-15)
                assert walk.exposure[at] == pytest.approx(np.mean([bar[1] for bar in bars]), abs=1e-15)
    assert any((walk.targets > 0).any() for walk in walks)


def test_choices_depend_on_the_last_target(market_file):
    """Otherwise the comparison above would not see a scan that forgets it."""
    pack = trained(tiny_spec(market_file, ["base 0 0"]))
    first, decisions = (torch.from_numpy(a) for a in member_rows(pack.table, [0], "train"))
    with torch.no_grad():
        choice = greedy_choices(pack, first, decisions)
    assert (choice != choice[..., :1]).any()


@pytest.fixture(scope="module")
def one_symbol(market_file):
    return DataConfig(source=str(market_file), symbols=("AA",), folds=tiny_spec(market_file).data.folds)


def test_wealth_of_one_symbol_is_the_final_equity(market_file, one_symbol):
    """sum log(1 + r) = log(final / first equity), the sum of the unscaled rewards of the same walk."""
    pack = trained(tiny_spec(market_file, ["base 0 0"], data=one_symbol))
    with torch.no_grad():
        walk = evaluate(pack, "train")[0]
        found = walk_bar_by_bar(pack, 0, "train")
    equity = np.prod([1.0 + bars[0][0] for bars in found.values()])
    assert np.log1p(walk.returns).sum() == pytest.approx(np.log(equity), abs=1e-12)


def test_record_holds_the_series_of_its_span(market_file):
    spec = tiny_spec(market_file, ["base 0 0", "base 0 1"])
    table, columns = load_table(spec.data), run(spec).records[-1].columns
    for span in SPANS:
        for fold in (0, 1):
            bounds = table.folds[fold].spans[span]
            returns, exposure = columns[f"returns/{span}"][fold], columns[f"exposure/{span}"][fold]
            assert len(returns) == len(exposure) == bounds.stop - bounds.start - 1
            assert columns[f"eval/{span}/n"][fold] == len(returns)
            assert columns[f"eval/{span}/log_wealth"][fold] == np.log1p(returns).sum()
            assert np.abs(exposure).max() <= 1.0
            assert columns[f"eval/{span}/max_drawdown"][fold] == max_drawdown(returns)


def test_drawdown_counts_from_the_start():
    """rl.md 1.3 case 9: equity 100, 90, 95 has a drawdown of 10 %."""
    assert max_drawdown(np.array([-0.1, 95 / 90 - 1])) == pytest.approx(0.1)
    assert max_drawdown(np.array([0.1, 0.2])) == 0.0


def test_a_policy_that_stays_flat_has_no_trades(market_file):
    pack = started(tiny_spec(market_file, ["base 0 0"]))
    for name in ("w_d2", "w_v2", "b_v2"):
        pack.online.weights[name].zero_()
    bias = torch.zeros(3, 11)
    bias[1, -1] = 9.0  # the flat direction expects the highest return
    pack.online.weights["b_d2"].copy_(bias.flatten()[None, None])
    with torch.no_grad():
        walks = evaluate(pack, "validation")
    columns = evaluation(pack.table, "validation", walks, 1)
    assert columns["eval/validation/status"] == ["no_trades"]
    assert columns["eval/validation/sharpe"][0] == 0.0
    assert columns["eval/validation/turnover"][0] == 0.0
    assert not walks[0].returns.any()


def test_bankruptcy_ends_the_walk_at_the_floor(tmp_path):
    """A policy that is always short meets a price that triples; the report says so and no number is infinite."""
    bars = synthetic_bars()
    jump = (bars["symbol"] == "AA") & (bars["timestamp"] >= bars["timestamp"].iloc[440])
    bars.loc[jump, ["open", "high", "low", "close"]] *= 3.0
    path = tmp_path / "jump.csv"
    bars.to_csv(path, index=False)
    pack = started(tiny_spec(path, ["base 0 1"]))
    for name in ("w_d2", "w_m2", "w_v2", "b_v2"):
        pack.online.weights[name].zero_()
    for name, action in (("b_d2", 0), ("b_m2", 2)):
        bias = torch.zeros(3, 11)
        bias[action, -1] = 9.0
        pack.online.weights[name].copy_(bias.flatten()[None, None])
    with torch.no_grad():
        walk = evaluate(pack, "judge")[0]
    assert walk.bankrupt
    assert np.isfinite(walk.returns).all()
    columns = evaluation(pack.table, "judge", [walk], 1)
    assert columns["eval/judge/status"] == ["bankrupt"]
    assert columns["eval/judge/sharpe"][0] == -3.0


def test_evaluating_changes_no_bit(market_file):
    packs = [trained(tiny_spec(market_file, ["base 0 0"])) for _ in range(2)]
    with torch.no_grad():
        for span in SPANS:
            evaluate(packs[0], span)
        for pack in packs:
            update(pack, diagnose=False)
    assert torch.equal(packs[0].online.params, packs[1].online.params)
