"""Does C51 of this trainer learn as well as Tianshou's, on the same market with the same budget?

    python benchmarks/tianshou_parity.py --seeds 8                 # AR(1) bars, then the bundled real bars
    python benchmarks/tianshou_parity.py --market ar1 --seeds 2 --updates 200    # a smoke run, under a minute

Needs `pip install tianshou==2.0.1 gymnasium` beside this package. Both sides run in one process on one thread, in
blocks that alternate, and are judged by one function. The score of a run is its Sharpe ratio on the judge span, greedy,
averaged over the last `SCORED` of `BLOCKS` evaluations. docs/parity.md tells what is equal and what is not.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tianshou
import torch
from gym_market import MarketEnv
from gymnasium.utils.env_checker import check_env
from rich.console import Console
from rich.table import Table
from tianshou.algorithm.modelfree.c51 import C51, C51Policy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

import numba_kernels as nk
from trainer.config import ArmConfig, DataConfig, FoldConfig, Member, TrainerConfig, TrialSpec
from trainer.data.source import load_table
from trainer.data.table import MarketTable
from trainer.evaluate import evaluate, greedy_choices
from trainer.market import Market, make_market, member_rows
from trainer.pack import build_pack
from trainer.params import TARGETS
from trainer.sharpe import iqm, sharpe
from trainer.step import begin_walks, update, walk

BLOCKS, SCORED = 20, 5
HARD_EVERY = 100  # a copy every N updates is (N - 1) / 2 updates old on average; a Polyak rate of 0.02 gives 1/0.02 - 1
WITHOUT_LIMIT = 1e9
PHI, SIGMA, BARS = 0.3, 0.01, 8000  # of the AR(1) market: autocorrelation, daily volatility, length
RESAMPLES = 10_000
CHUNK = 4096

# Nothing but C51: parts that a trainer has beyond it are switched off, limits that Tianshou lacks are out of reach.
C51_ALONE: dict[str, Any] = {
    "n_step": 1,
    "learning_rate": 1e-3,
    "target_rate": 2.0 / HARD_EVERY,
    "clip_norm": WITHOUT_LIMIT,
    "c51_budget": WITHOUT_LIMIT,
    "priority_alpha": 0.0,
    "reconstruction_weight": 0.0,
    "network": {"spectral_norm": False, "noisy_nets": False},
    "iqn": {"weight": 0.0},
    "ensemble": {"weight": 0.0, "bonus": 0.0},
    "cql": {"weight": 0.0},
    "distillation": {"alpha_max": 0.0},
}


def known(settings: dict[str, Any], schema: Any) -> dict[str, Any]:
    """The settings that `schema` has: a trainer without a part needs no switch for it."""
    kept = {}
    for name, value in settings.items():
        if name in schema.model_fields:
            part = schema.model_fields[name].annotation
            kept[name] = known(value, part) if isinstance(value, dict) else value
    return kept


def make_config(updates: int, rate: float) -> TrainerConfig:
    settings = known(C51_ALONE, TrainerConfig) | {"learning_rate": rate}
    return TrainerConfig(epochs=BLOCKS, updates_per_epoch=max(updates // BLOCKS, 4), **settings)


def ar1_bars(path: Path, seed: int) -> DataConfig:
    """Bars whose close-to-close log returns follow r' = PHI r + e; each bar opens at the close before it."""
    rng = np.random.default_rng(seed)
    shock, returns = rng.normal(0.0, SIGMA * np.sqrt(1.0 - PHI**2), BARS), np.zeros(BARS)
    for t in range(1, BARS):
        returns[t] = PHI * returns[t - 1] + shock[t]
    close = 100.0 * np.exp(np.cumsum(returns))
    opened = np.append(100.0, close[:-1])
    spread = np.exp(np.abs(rng.normal(0.0, SIGMA / 2, (2, BARS))))
    columns = {
        "timestamp": pd.bdate_range("1990-01-01", periods=BARS, tz="UTC"),
        "open": opened,
        "high": np.maximum(opened, close) * spread[0],
        "low": np.minimum(opened, close) / spread[1],
        "close": close,
        "volume": rng.integers(1_000_000, 2_000_000, BARS),
    }
    pd.DataFrame(columns).to_csv(path, index=False)
    folds = FoldConfig(count=1, holdout=0.0, judge=0.3, validation=0.05)
    return DataConfig(source=str(path), folds=folds)


class Judge:
    """Walks greedy choices over the judge span of a fold and scores them; the same for every policy."""

    def __init__(self, table: MarketTable, config: TrainerConfig, fold: int) -> None:
        self.table, self.fold, self.span = table, fold, table.folds[fold].spans["judge"]
        self.market: Market = make_market(table, config.market, 1, torch.device("cpu"))
        self.first, self.decisions = (torch.from_numpy(a) for a in member_rows(table, [fold], "judge"))

    def scan(self, choice: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
        """float64 returns and turnover `[1, S, T]` for int8 choices `[1, S, T, 7]`; whether a walk went bankrupt."""
        shape, market = choice.shape[:3], self.market
        returns, turnover = torch.zeros(2, *shape, dtype=torch.float64)
        target, bankrupt = torch.zeros(shape, dtype=torch.int8), torch.zeros(shape[:2], dtype=torch.int32)
        prices = market.open, market.close, market.years
        walks = self.first, self.decisions, choice
        nk.evaluation_scan(*prices, *walks, market.costs, returns, target, turnover, bankrupt)
        return returns, turnover, bool(bankrupt.any())

    def walk(self, choice: torch.Tensor) -> tuple[np.ndarray, np.ndarray, bool]:
        """Returns and turnover by bar of the span, symbols pooled with equal weights."""
        returns, turnover, bankrupt = self.scan(choice)
        sums = np.zeros((3, len(self.span) - 1))
        for s, (start, length) in enumerate(zip(self.first[0].tolist(), self.decisions[0].tolist(), strict=True)):
            place = self.table.position[start + 1 : start + 1 + length] - self.span.start - 1
            sums[:, place] += np.stack((returns[0, s, :length], turnover[0, s, :length], np.ones(length)))
        mean = sums[:2] / np.maximum(sums[2], 1.0)
        return mean[0], mean[1], bankrupt

    def score(self, choice: torch.Tensor) -> dict[str, float]:
        returns, turnover, bankrupt = self.walk(choice)
        years = self.table.periods_per_year
        found = sharpe(returns, periods_per_year=years, traded=bool(turnover.any()), bankrupt=bankrupt)
        return {
            "sharpe": found.value,
            "log_wealth": float(np.log1p(returns).sum()),
            "turnover": float(turnover.mean() * years),
        }

    def states(self) -> tuple[torch.Tensor, torch.Tensor]:
        """int64 rows and last targets of all states, bar by bar, `[S * T * 7]`; one symbol after the other."""
        steps = torch.minimum(torch.arange(int(self.decisions.max())), self.decisions[0, :, None] - 1)
        rows = (self.first[0, :, None] + steps).flatten()
        return rows.repeat_interleave(TARGETS), torch.arange(TARGETS).repeat(len(rows))

    def of_states(self, choice: np.ndarray) -> torch.Tensor:
        """int8 `[1, S, T, 7]` from the choices in `states`."""
        return torch.from_numpy(choice.astype(np.int8)).view(1, self.first.shape[1], -1, TARGETS)


class Ours:
    """One member of this trainer."""

    def __init__(self, table: MarketTable, config: TrainerConfig, data: DataConfig, fold: int, seed: int) -> None:
        members = (Member(arm="c51", seed=seed, fold=fold),)
        arms = (ArmConfig(name="c51"),)
        self.pack = build_pack(
            TrialSpec(key="parity", config_key="parity", data=data, trainer=config, arms=arms, members=members), table
        )
        begin_walks(self.pack)
        for _ in range(before_learning(config)):
            self.walk()

    @torch.no_grad()
    def walk(self) -> None:
        walk(self.pack)

    @torch.no_grad()
    def update(self) -> None:
        update(self.pack, False)

    @torch.no_grad()
    def choices(self, judge: Judge) -> torch.Tensor:
        return greedy_choices(self.pack, judge.first, judge.decisions)


class Theirs:
    """Tianshou's C51 with its own collector and replay, on `MarketEnv`."""

    def __init__(self, table: MarketTable, config: TrainerConfig, data: DataConfig, fold: int, seed: int) -> None:
        np.random.seed(seed)  # noqa: NPY002 - Tianshou explores and samples with the global generator
        torch.manual_seed(seed)
        self.config, self.updates = config, 0
        walks = config.environments

        def make() -> MarketEnv:
            return MarketEnv(table, config.market, fold=fold, episode_bars=config.episode_bars)

        environments = DummyVectorEnv([make] * walks)
        environments.seed([seed * walks + i for i in range(walks)])
        self.algorithm = self._algorithm(make())
        self.replay = VectorReplayBuffer(config.replay_capacity, walks)
        self.collector = Collector(self.algorithm, environments, self.replay, exploration_noise=True)
        self.collector.reset()
        for _ in range(before_learning(config)):
            self.walk()

    def _algorithm(self, env: MarketEnv) -> C51:
        config, network = self.config, self.config.network
        head = {"hidden_sizes": [network.head]}
        model = Net(
            state_shape=env.observation_space.shape,
            action_shape=TARGETS,
            hidden_sizes=network.trunk,
            num_atoms=network.atoms,
            softmax=True,
            dueling_param=(head, head),
        )
        policy = C51Policy(
            model=model,
            action_space=env.action_space,
            observation_space=env.observation_space,
            num_atoms=network.atoms,
            v_min=-network.v_max,
            v_max=network.v_max,
        )
        betas = config.adam_beta1, config.adam_beta2
        return C51(
            policy=policy,
            optim=AdamOptimizerFactory(lr=config.learning_rate, betas=betas, eps=config.adam_epsilon),
            gamma=config.discount,
            n_step_return_horizon=config.n_step,
            target_update_freq=HARD_EVERY,
        )

    def walk(self) -> None:
        config, policy = self.config, self.algorithm.policy
        progress = min(self.updates / config.epsilon_decay_updates, 1.0)
        policy.set_eps_training(config.epsilon_start + (config.epsilon_end - config.epsilon_start) * progress)
        with policy_within_training_step(policy):
            self.collector.collect(n_step=config.environments)

    def update(self) -> None:
        policy = self.algorithm.policy
        with policy_within_training_step(policy), torch_train_mode(policy):
            self.algorithm.update(self.replay, sample_size=self.config.batch_size)
        self.updates += 1

    @torch.no_grad()
    def choices(self, judge: Judge) -> torch.Tensor:
        rows, last = judge.states()
        found = [
            self.algorithm.policy(Batch(obs=judge.market.observe(row[None], target[None])[0].numpy(), info=None)).act
            for row, target in zip(rows.split(CHUNK), last.split(CHUNK), strict=True)
        ]
        return judge.of_states(np.concatenate(found))


SIDES: dict[str, type[Ours] | type[Theirs]] = {"gemsweep": Ours, "tianshou": Theirs}


def before_learning(config: TrainerConfig) -> int:
    """Bars that every walk makes before the first update: as many as the trainer's loop."""
    return config.n_step + -(-config.batch_size // config.environments)


def clocked(action: Callable[[], None], spent: dict[str, float], name: str) -> None:
    """Processor seconds of this process: other people's load does not count."""
    begun = time.process_time()
    action()
    spent[name] += time.process_time() - begun


def run_pair(table: MarketTable, config: TrainerConfig, data: DataConfig, fold: int, seed: int) -> dict[str, Any]:
    """Train both sides in alternating blocks; scores of every block and milliseconds per iteration."""
    judge = Judge(table, config, fold)
    sides = {name: side(table, config, data, fold, seed) for name, side in SIDES.items()}
    curve: dict[str, list[dict[str, float]]] = {name: [judge.score(s.choices(judge))] for name, s in sides.items()}
    spent = {name: {"walk": 0.0, "update": 0.0} for name in sides}
    for block in range(BLOCKS):
        for name in sorted(sides, reverse=bool(block % 2)):
            for _ in range(config.updates_per_epoch):
                clocked(sides[name].walk, spent[name], "walk")
                clocked(sides[name].update, spent[name], "update")
            curve[name].append(judge.score(sides[name].choices(judge)))
    per = 1000.0 / (BLOCKS * config.updates_per_epoch)
    return {
        "seed": seed,
        "milliseconds": {name: {part: s * per for part, s in parts.items()} for name, parts in spent.items()},
        "curve": curve,
        "score": {name: last_mean(blocks) for name, blocks in curve.items()},
    }


def last_mean(blocks: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([b[key] for b in blocks[-SCORED:]])) for key in blocks[0]}


def reference(table: MarketTable, config: TrainerConfig, fold: int) -> dict[str, dict[str, float]]:
    """What fixed rules score on the judge span: always long, and the sign of the last return, always fully invested."""
    judge = Judge(table, config, fold)
    rows, _ = judge.states()
    moved = np.append(0.0, np.diff(np.log(table.close)))
    sign = np.where(moved[rows.numpy()] > 0, 6, 3)
    rules = {"long": np.full(len(rows), 6), "sign of the last return": sign}
    return {name: judge.score(judge.of_states(choice)) for name, choice in rules.items()}


def check_same_market(table: MarketTable, config: TrainerConfig, data: DataConfig, fold: int) -> None:
    """The environment, the judge and the trainer's own evaluation walk the same account."""
    env = MarketEnv(table, config.market, fold=fold, episode_bars=config.episode_bars)
    check_env(env, skip_render_check=True)
    judge, ours = Judge(table, config, fold), Ours(table, config, data, fold, 0)
    choice = ours.choices(judge)
    with torch.no_grad():
        expected = evaluate(ours.pack, "judge")[0].returns
    np.testing.assert_allclose(judge.walk(choice)[0], expected, rtol=0, atol=1e-15)
    returns, last = judge.scan(choice)[0], 0
    _, info = env.reset(options={"row": int(judge.first[0, 0])})
    for t in range(int(judge.decisions[0, 0])):
        before, last = info["equity"], int(choice[0, 0, t, last])
        info = env.step(np.int64(last))[4]
        np.testing.assert_allclose(info["equity"] / before - 1.0, returns[0, 0, t].item(), rtol=0, atol=1e-15)


def bootstrap(ours: np.ndarray, theirs: np.ndarray, statistic: Callable[..., Any]) -> tuple[float, float, float]:
    """Difference of a statistic and its 95 % percentile interval; the two groups are resampled independently."""
    rng = np.random.default_rng(0)

    def drawn(values: np.ndarray) -> np.ndarray:
        return np.array([statistic(row) for row in values[rng.integers(len(values), size=(RESAMPLES, len(values)))]])

    low, high = np.percentile(drawn(ours) - drawn(theirs), (2.5, 97.5))
    return float(statistic(ours) - statistic(theirs)), float(low), float(high)


def summarise(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    def scores(name: str, key: str) -> np.ndarray:
        return np.array([pair["score"][name][key] for pair in pairs])

    found: dict[str, Any] = {}
    for key in ("sharpe", "log_wealth", "turnover"):
        ours, theirs = scores("gemsweep", key), scores("tianshou", key)
        found[key] = {name: {"mean": float(v.mean()), "sd": float(v.std(ddof=1)), "iqm": float(iqm(v))}
                      for name, v in (("gemsweep", ours), ("tianshou", theirs))}  # fmt: skip
        found[key]["difference of means"] = bootstrap(ours, theirs, np.mean)
        found[key]["difference of IQMs"] = bootstrap(ours, theirs, iqm)
    found["milliseconds"] = {
        name: {part: float(np.median([p["milliseconds"][name][part] for p in pairs])) for part in ("walk", "update")}
        for name in SIDES
    }
    return found


def show(name: str, result: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{name}: judge Sharpe, mean of the last {SCORED} of {BLOCKS} evaluations")
    for heading in ("seed", *SIDES):
        table.add_column(heading, justify="right")
    for pair in result["pairs"]:
        table.add_row(str(pair["seed"]), *(f"{pair['score'][side]['sharpe']:+.3f}" for side in SIDES))
    summary = result["summary"]
    for row in ("mean", "sd", "iqm"):
        table.add_row(row, *(f"{summary['sharpe'][side][row]:+.3f}" for side in SIDES))
    console.print(table)
    for key in ("sharpe", "log_wealth", "turnover"):
        for which in ("difference of means", "difference of IQMs"):
            value, low, high = summary[key][which]
            console.print(f"{key}, {which}: {value:+.3f} [{low:+.3f}, {high:+.3f}]")
    for side, parts in summary["milliseconds"].items():
        console.print(f"{side}: {parts['update']:.2f} ms an update, {parts['walk']:.2f} ms a bar of all walks")
    for rule, score in result["reference"].items():
        console.print(f"{rule}: Sharpe {score['sharpe']:+.3f}, turnover {score['turnover']:.0f} a year")


def measure(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if name == "ar1":
        data, fold = ar1_bars(folder / "ar1.csv", options.bars_seed), 0
    else:
        data, fold = DataConfig(), DataConfig().folds.count - 1
    config, table = make_config(options.updates, options.learning_rate), load_table(data)
    check_same_market(table, config, data, fold)
    pairs = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        pairs.append(run_pair(table, config, data, fold, seed))
        shown = {side: round(score["sharpe"], 3) for side, score in pairs[-1]["score"].items()}
        print(f"{name} seed {seed}: {shown}", flush=True)
    return {
        "config": config.model_dump(mode="json"),
        "tianshou": {"target_update_freq": HARD_EVERY},
        "updates": BLOCKS * config.updates_per_epoch,
        "reference": reference(table, config, fold),
        "pairs": pairs,
        "summary": summarise(pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8, help="two or more")
    parser.add_argument("--first-seed", type=int, default=0, help="1000 and more were used to choose the learning rate")
    parser.add_argument("--bars-seed", type=int, default=0, help="of the AR(1) bars")
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--learning-rate", type=float, default=C51_ALONE["learning_rate"], help="of both sides")
    parser.add_argument("--market", choices=("ar1", "us-daily", "both"), default="both")
    parser.add_argument("--json", type=Path, default=Path("tianshou_parity.json"), help="write all figures here")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error("--seeds must be 2 or more: an interval needs a spread")
    torch.set_num_threads(1)
    nk.warmup(torch.device("cpu"))
    markets = ("ar1", "us-daily") if options.market == "both" else (options.market,)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        found = {name: measure(name, options, Path(folder)) for name in markets}
    for name, result in found.items():
        show(name, result, Console())
    versions = {"torch": torch.__version__, "tianshou": tianshou.__version__, "python": platform.python_version()}
    options.json.write_text(json.dumps({"versions": versions, "markets": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
