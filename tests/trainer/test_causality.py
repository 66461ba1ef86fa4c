"""Nothing before a bar depends on what comes after it, and nothing outside the train span reaches a parameter."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_trial import FOLDS, run, started, synthetic_bars, tiny_spec

from trainer.config import DataConfig
from trainer.data.bars import load_bars
from trainer.data.source import load_table
from trainer.data.table import market_table
from trainer.evaluate import greedy_choices
from trainer.market import make_market
from trainer.step import iterate

CUTS = (420, 450, 481)


@pytest.fixture(scope="module")
def trained(market_file):
    pack = started(tiny_spec(market_file, ["base 0 0", "base 1 0"]))
    with torch.no_grad():
        for _ in range(10):
            iterate(pack, diagnose=False)
    return pack


@pytest.mark.parametrize("cut", CUTS)
def test_truncating_the_bars_changes_nothing_before_the_cut(trained, cut):
    """Features, observations and greedy actions of every bar and every last target."""
    bars = synthetic_bars()
    last = np.unique(bars["timestamp"])[cut - 1]
    config = DataConfig(folds=FOLDS.model_copy(update={"count": 1}))
    cut_table = market_table(load_bars(bars[bars["timestamp"] <= last].reset_index(drop=True)), config, 5)
    whole = trained.table
    market = make_market(cut_table, trained.spec.trainer.market, 2, trained.device)
    shorter = replace(trained, table=cut_table, market=market)
    for symbol in range(2):
        long = np.flatnonzero((whole.symbol == symbol) & (whole.timestamp <= last.value))
        short = np.flatnonzero(cut_table.symbol == symbol)
        assert len(long) == len(short) > 200
        assert np.array_equal(whole.timestamp[long], cut_table.timestamp[short])
        assert np.array_equal(whole.features[long].view(np.uint32), cut_table.features[short].view(np.uint32))
        assert np.array_equal(whole.linked[long[:-1]], cut_table.linked[short[:-1]])
        choices = []
        for pack, rows in ((trained, long), (shorter, short)):
            first, count = torch.full((2, 1), int(rows[0])), torch.full((2, 1), len(rows))
            with torch.no_grad():
                choices.append(greedy_choices(pack, first, count))
                every = torch.arange(7).expand(len(rows), 7)
                choices.append(pack.market.observe(torch.from_numpy(rows)[:, None].expand(-1, 7), every))
        assert torch.equal(choices[0], choices[2])
        assert torch.equal(choices[1], choices[3])
        assert len(choices[0].unique()) > 1


def permuted(market_file, tmp_path, spans, seed=0):
    """The synthetic market with the prices of all bars after the train span of fold 0, or in it, drawn anew."""
    table, bars = load_table(tiny_spec(market_file).data), synthetic_bars()
    other = synthetic_bars(seed=99)
    for span in spans:
        bounds = table.folds[0].spans[span]
        inside = bars["timestamp"].between(bounds.start_time, bounds.stop_time)
        prices = ["open", "high", "low", "close"]
        bars.loc[inside, prices] = other.loc[inside, prices].to_numpy()
    path = tmp_path / f"{'-'.join(spans)}.csv"
    bars.to_csv(path, index=False)
    return path


def test_validation_and_judge_prices_reach_no_parameter(market_file, tmp_path):
    """Fold 0 only: the spans of fold 1 reach further. The evaluations must change, the networks must not."""
    member = ["wired 0 0"]
    path = permuted(market_file, tmp_path, ("validation", "judge"))
    one, other = run(tiny_spec(market_file, member)), run(tiny_spec(path, member))
    for a, b in zip(one.records, other.records, strict=True):
        assert a.columns["purity/params_sha"] == b.columns["purity/params_sha"]
        assert a.columns["q_gap"].tolist() == b.columns["q_gap"].tolist()
        assert a.columns["eval/validation/sharpe"] != b.columns["eval/validation/sharpe"]
    for name, tensor in one.checkpoint.tensors.items():
        assert torch.equal(tensor, other.checkpoint.tensors[name]), name


def test_train_prices_do_reach_the_parameters(market_file, tmp_path):
    """The counterpart, without which the test above could not fail."""
    path = permuted(market_file, tmp_path, ("train",))
    one, other = (run(tiny_spec(source, ["base 0 0"])).records[-1] for source in (market_file, path))
    assert one.columns["purity/params_sha"] != other.columns["purity/params_sha"]


def test_replay_holds_train_bars_only(market_file):
    """Also the bootstrap state of the last transition lies in the train span."""
    pack = started(tiny_spec(market_file, ["base 0 0", "base 1 1"], episode_bars=10_000))
    with torch.no_grad():
        for _ in range(80):
            iterate(pack, diagnose=False)
    for member, fold in ((0, 0), (1, 1)):
        stop = pack.table.folds[fold].spans["train"].stop
        rows = pack.replay.fields["row"][member].flatten().numpy()
        assert (pack.table.position[rows + 1] < stop).all()
        assert pack.table.linked[rows].all()
    assert (pack.replay.fields["flags"] != 0).any()
