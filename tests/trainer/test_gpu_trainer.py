"""The packed trainer on a CUDA device: the same promises as on CPU, for the same pack size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainer.config import ArmConfig, DataConfig, GemConfig, Machine, Member, TrainerConfig, TrialSpec
from trainer.data.source import load_table
from trainer.loop import run_trial
from trainer.pack import build_pack, load_state, state
from trainer.reporter import MemoryReporter
from trainer.step import begin_walks, iterate, walk

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GEMS = ("g6_branch_indep", "g10_temporal", "g12_predictive")


def make_spec(device: str, arms: tuple[str, ...] = ("base",), epochs: int = 2) -> TrialSpec:
    modes = {"base": "probe", "off": "off", "wired": "wired"}
    configs = tuple(ArmConfig(name=a, gems={g: GemConfig(mode=modes[a]) for g in GEMS}) for a in arms)
    trainer = TrainerConfig(epochs=epochs, updates_per_epoch=20, score_epochs=1)
    members = tuple(Member(arm=a, seed=s, fold=f) for a in arms for s in range(2) for f in range(2))
    return TrialSpec(
        key="gpu-b0",
        config_key="gpu",
        data=DataConfig(),
        trainer=trainer,
        arms=configs,
        members=members,
        machine=Machine(device=device),
    )


def run(spec: TrialSpec) -> MemoryReporter:
    reporter = MemoryReporter()
    run_trial(spec, reporter)
    return reporter


def rows(reporter: MemoryReporter, name: str) -> np.ndarray:
    return np.array([record.columns[name] for record in reporter.records])


def test_two_runs_give_the_same_bits() -> None:
    first, second = run(make_spec("cuda")), run(make_spec("cuda"))
    assert (rows(first, "purity/params_sha") == rows(second, "purity/params_sha")).all()


def test_probing_changes_no_parameter_bit() -> None:
    digests = rows(run(make_spec("cuda", ("base", "off"))), "purity/params_sha")
    assert (digests[:, :4] == digests[:, 4:]).all()


def test_wiring_changes_parameters() -> None:
    digests = rows(run(make_spec("cuda", ("base", "wired"))), "purity/params_sha")
    assert (digests[0, :4] == digests[0, 4:]).all()
    assert (digests[-1, :4] != digests[-1, 4:]).all()


def test_first_epochs_agree_with_cpu() -> None:
    """Equal random numbers and equal money; the matrix products round differently, so training drifts apart slowly."""
    torch.backends.cuda.matmul.allow_tf32 = False
    cpu, gpu = run(make_spec("cpu")), run(make_spec("cuda"))
    assert (rows(cpu, "purity/params_sha")[0] == rows(gpu, "purity/params_sha")[0]).all()
    np.testing.assert_allclose(rows(gpu, "loss/c51")[1], rows(cpu, "loss/c51")[1], rtol=2e-2)
    np.testing.assert_allclose(rows(gpu, "q_gap")[0], rows(cpu, "q_gap")[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(rows(gpu, "eval/train/log_wealth")[0], rows(cpu, "eval/train/log_wealth")[0], atol=0.05)


def test_a_nan_member_is_frozen_and_the_others_keep_every_bit() -> None:
    spec = make_spec("cuda")
    with torch.no_grad():
        packs = [build_pack(spec, load_table(spec.data)) for _ in range(2)]
        for pack in packs:
            begin_walks(pack)
            for _ in range(15):
                walk(pack)
        packs[1].online.weights["w_s1"][2, 0, 0] = float("nan")
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


def test_one_iteration_captured_in_a_graph_equals_eager() -> None:
    spec = make_spec("cuda", ("base", "wired"))
    with torch.no_grad():
        packs = [build_pack(spec, load_table(spec.data)) for _ in range(2)]
        for pack in packs:
            begin_walks(pack)
            for _ in range(15):
                walk(pack)
        eager, captured = packs
        stream = torch.cuda.Stream()
        start = {name: tensor.clone() for name, tensor in state(captured).items()}
        with torch.cuda.stream(stream):
            for _ in range(3):
                iterate(captured, diagnose=False)
        torch.cuda.synchronize()
        load_state(captured, start)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            iterate(captured, diagnose=False)
        for _ in range(20):
            graph.replay()
            iterate(eager, diagnose=False)
        torch.cuda.synchronize()
    assert torch.equal(eager.online.params, captured.online.params)
    assert torch.equal(eager.signals.table, captured.signals.table)
