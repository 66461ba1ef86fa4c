"""The packed trainer on a CUDA device: the same promises as on CPU, for the same pack size."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from trainer.capture import CapturedStep
from trainer.config import ArmConfig, DataConfig, GemConfig, Machine, Member, TrainerConfig, TrialSpec
from trainer.data.source import load_table
from trainer.loop import run_trial
from trainer.pack import Pack, build_pack, load_state, state
from trainer.reporter import MemoryReporter
from trainer.session import Session
from trainer.signals import LEARNING_HEALTH
from trainer.step import begin_walks, iterate, walk

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ARMS = ("base",), ("off",)
GEMS = ("g6_branch_indep", "g10_temporal", "g12_predictive")


def make_spec(device: str, arms: tuple[str, ...] = ("base",), epochs: int = 2, precision: str = "tf32") -> TrialSpec:
    """`off-<feature>` is the base arm without that feature."""
    modes = {"off": "off", "wired": "wired"}
    configs = tuple(
        ArmConfig(
            name=a,
            gems={g: GemConfig(mode=modes.get(a, "probe")) for g in GEMS},
            features_off=(a.removeprefix("off-"),) if a.startswith("off-") else (),
        )
        for a in arms
    )
    trainer = TrainerConfig(epochs=epochs, updates_per_epoch=20, score_epochs=1)
    members = tuple(Member(arm=a, seed=s, fold=f) for a in arms for s in range(2) for f in range(2))
    return TrialSpec(
        key="gpu-b0",
        config_key="gpu",
        data=DataConfig(),
        trainer=trainer,
        arms=configs,
        members=members,
        machine=Machine.model_validate({"device": device, "precision": precision}),
    )


both_precisions = pytest.mark.parametrize("precision", ["tf32", "bf16"])


def started(spec: TrialSpec) -> Pack:
    """A pack with enough bars in its replay for an update."""
    pack = build_pack(spec, load_table(spec.data))
    begin_walks(pack)
    for _ in range(15):
        walk(pack)
    return pack


def run(spec: TrialSpec) -> MemoryReporter:
    reporter = MemoryReporter()
    run_trial(spec, reporter)
    return reporter


def rows(reporter: MemoryReporter, name: str) -> np.ndarray:
    return np.array([record.columns[name] for record in reporter.records])


@both_precisions
def test_two_runs_give_the_same_bits(precision: str) -> None:
    first, second = (run(make_spec("cuda", precision=precision)) for _ in range(2))
    assert (rows(first, "purity/params_sha") == rows(second, "purity/params_sha")).all()


@both_precisions
def test_probing_changes_no_parameter_bit(precision: str) -> None:
    digests = rows(run(make_spec("cuda", ("base", "off"), precision=precision)), "purity/params_sha")
    assert (digests[:, :4] == digests[:, 4:]).all()


def test_wiring_changes_parameters() -> None:
    digests = rows(run(make_spec("cuda", ("base", "wired"))), "purity/params_sha")
    assert (digests[0, :4] == digests[0, 4:]).all()
    assert (digests[-1, :4] != digests[-1, 4:]).all()


def test_first_epochs_agree_with_cpu() -> None:
    """Equal random numbers and equal money; the matrix products round differently, so training drifts apart slowly."""
    exact = {"machine": Machine(device="cuda", precision="float32")}
    cpu, gpu = run(make_spec("cpu")), run(make_spec("cuda").model_copy(update=exact))
    assert (rows(cpu, "purity/params_sha")[0] == rows(gpu, "purity/params_sha")[0]).all()
    np.testing.assert_allclose(rows(gpu, "loss/c51")[1], rows(cpu, "loss/c51")[1], rtol=2e-2)
    np.testing.assert_allclose(rows(gpu, "q_gap")[0], rows(cpu, "q_gap")[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(rows(gpu, "eval/train/log_wealth")[0], rows(cpu, "eval/train/log_wealth")[0], atol=0.05)


@both_precisions
def test_a_nan_member_is_frozen_and_the_others_keep_every_bit(precision: str) -> None:
    """One NaN weight of the first layer: no ReLU on the way may make it a zero."""
    spec = make_spec("cuda", precision=precision)
    with torch.no_grad():
        packs = [started(spec) for _ in range(2)]
        packs[1].online.weights["w_s1"][2, 0, 0] = float("nan")
        packs[1].online.refresh()
        for pack in packs:
            for i in range(5):
                iterate(pack, diagnose=i == 4)
    assert packs[1].counters["frozen_at"].tolist()[2] == 0
    kept = [0, 1, 3]
    for name, tensor in state(packs[0]).items():
        assert torch.equal(tensor[kept], state(packs[1])[name][kept]), name


def test_restored_state_continues_identically() -> None:
    spec = make_spec("cuda", epochs=3)
    whole = run(spec)
    half = MemoryReporter(stop_after=1)
    run_trial(spec, half)
    rest = MemoryReporter(start=half.checkpoint)
    run_trial(spec, rest)
    assert (rows(whole, "purity/params_sha")[2:] == rows(rest, "purity/params_sha")).all()


def test_a_member_without_a_feature_trains_apart_and_leaves_the_others_alone() -> None:
    """The base members are those of a pack of the same size whose other arms have every feature."""
    arms = tuple(f"off-{feature}" for feature in ("iqn", "noisy_nets", "cql"))
    mixed, plain = run(make_spec("cuda", ("base", *arms))), run(make_spec("cuda", ("base", "off", "base2", "base3")))
    digests = rows(mixed, "purity/params_sha")
    assert (digests[:, :4] == rows(plain, "purity/params_sha")[:, :4]).all()
    assert len(set(digests[-1])) == len(digests[-1])


def captured(pack, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    """A graph of one iteration of `pack`, whose state is as before."""
    start = {name: tensor.clone() for name, tensor in state(pack).items()}
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            iterate(pack, diagnose=False)
    torch.cuda.synchronize()
    load_state(pack, start)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        iterate(pack, diagnose=False)
    return graph


@both_precisions
def test_a_captured_iteration_equals_eager_and_follows_slot_12(precision: str) -> None:
    """Bug 2 of the older trainer: captured while health was full, its alpha of 0 was replayed for ever."""
    spec = make_spec("cuda", ("base", "wired"), precision=precision)
    with torch.no_grad():
        packs = [started(spec) for _ in range(2)]
        for pack in packs:
            pack.signals["distill_armed"].fill_(1.0)
            pack.snapshots.best.mul_(0.5)
        eager, graphed = packs
        graph, alphas = captured(graphed, torch.cuda.Stream()), []
        for health in [1.0] * 5 + [0.0, 0.1, 0.2] + [1.0] * 12:
            for pack in packs:
                pack.signals.table[:, LEARNING_HEALTH].fill_(health)
            graph.replay()
            iterate(eager, diagnose=False)
            alphas.append(graphed.signals["distill_alpha"][0].item())
        torch.cuda.synchronize()
    largest, limit = spec.trainer.distillation.alpha_max, spec.trainer.distillation.health_on
    expected = [largest * max(limit - health, 0.0) / limit for health in [1.0] * 5 + [0.0, 0.1, 0.2] + [1.0] * 12]
    assert alphas == pytest.approx(expected)
    for name, tensor in state(eager).items():
        assert torch.equal(tensor, state(graphed)[name]), name


def numbers_changed(spec: TrialSpec) -> TrialSpec:
    """Another trial of the same structure: what a search changes, other seeds and other folds."""
    changed = spec.trainer.model_copy(update={"learning_rate": 3e-4, "discount": 0.85, "target_rate": 0.05})
    members = tuple(m.model_copy(update={"seed": m.seed + 5, "fold": 1 - m.fold}) for m in spec.members)
    return spec.model_copy(update={"trainer": changed, "members": members})


def eager(spec: TrialSpec) -> TrialSpec:
    return spec.model_copy(update={"machine": spec.machine.model_copy(update={"capture": False})})


def test_captured_trials_of_one_session_equal_eager_ones_of_their_own() -> None:
    """Three trials one after the other, 120 iterations each, with diagnostics, schedules on the move and a reset
    between; the graphs of the first are replayed in all."""
    first = make_spec("cuda", ("base", "wired", "off-iqn"), epochs=6)
    session, steps = Session(), []
    for spec in (first, numbers_changed(first), first):
        seen, alone = MemoryReporter(), run(eager(spec))
        run_trial(spec, seen, session=session)
        steps.append(session.open(spec, session.table(spec.data))[1])
        assert (rows(seen, "purity/params_sha") == rows(alone, "purity/params_sha")).all()
        assert (rows(seen, "loss/c51") == rows(alone, "loss/c51"))[1:].all()
    assert steps[0] is steps[1] is steps[2]
    assert isinstance(steps[0], CapturedStep)


def products_of(pack: Pack) -> Counter[str]:
    """Names of the matrix-product kernels of an update without diagnostics, and how often each ran."""
    iterate(pack, diagnose=False)  # kernels are chosen on first use
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        iterate(pack, diagnose=False)
        torch.cuda.synchronize()
    names = [event.name for event in seen.events() if "gemm" in event.name or "nvjet" in event.name]
    assert names
    return Counter(names)


@both_precisions
def test_products_are_the_same_with_and_without_gems(precision: str) -> None:
    """Probing costs an update nothing and changes no bit of it only if the library takes the same kernels."""
    with torch.no_grad():
        with_gems, without = (products_of(started(make_spec("cuda", arms, precision=precision))) for arms in ARMS)
    assert with_gems == without


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second CUDA device")
def test_a_second_device_gives_the_same_bits() -> None:
    first, second = (run(make_spec(device)) for device in ("cuda:0", "cuda:1"))
    assert (rows(first, "purity/params_sha") == rows(second, "purity/params_sha")).all()


@pytest.mark.parametrize("replays", [5000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_replays_take_no_memory_and_a_reset_little_time(replays: int) -> None:
    spec, session = make_spec("cuda"), Session()
    with torch.no_grad():
        table = session.table(spec.data)
        pack, step = session.open(spec, table)
        begin_walks(pack)
        for _ in range(15):
            walk(pack)
        for _ in range(6):
            step(pack, True)
            step(pack, False)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        for _ in range(replays):
            step(pack, False)
        torch.cuda.synchronize()
        assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before
        again, same = session.open(numbers_changed(spec), table)
        assert same is step
        assert again.online.params.data_ptr() == pack.online.params.data_ptr()
        assert torch.cuda.memory_allocated() <= before[0]
