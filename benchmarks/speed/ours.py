"""gemsweep's own step, on the network, batch and replay size of the rivals. Imported by `run.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from rivals import Job, Outcome, rival
from shapes import Shape
from timing import torch_rates

import numba_kernels as nk
from trainer.config import FEATURES, ArmConfig, DataConfig, Machine, Member, NetworkConfig, TrainerConfig, TrialSpec
from trainer.data.source import load_table
from trainer.pack import Pack, build_pack
from trainer.step import begin_walks, iterate, update, walk

ENVIRONMENTS = 64


def c51_only(shape: Shape, device: str) -> TrialSpec:
    """The trainer with every other feature off: C51, double DQN, n-step replay, Adam, clip and target update."""
    network = NetworkConfig(trunk=shape.trunk, head=shape.head, atoms=shape.atoms, v_max=shape.v_max)
    trainer = TrainerConfig(
        batch_size=shape.batch,
        replay_capacity=shape.capacity,
        environments=ENVIRONMENTS,
        n_step=shape.n_step,
        network=network,
    )
    arm = ArmConfig(name="base", features_off=FEATURES)
    return TrialSpec(
        key="speed-b0",
        config_key="speed",
        data=DataConfig(),
        trainer=trainer,
        arms=(arm,),
        members=tuple(Member(arm="base", seed=s, fold=s % 2) for s in range(shape.members)),
        machine=Machine(device=device),
    )


def filled_pack(shape: Shape, spec: TrialSpec) -> Pack:
    """A pack whose features are random columns of the rivals' width and whose replay is full."""
    table = load_table(spec.data)
    features = np.random.default_rng(0).normal(size=(len(table.features), shape.features)).astype(np.float32)
    pack = build_pack(spec, replace(table, features=features))
    begin_walks(pack)
    for _ in range(shape.capacity // ENVIRONMENTS + shape.n_step):
        walk(pack)
    return pack


def captured(pack: Pack, step: Callable[[Pack, bool], None]) -> Callable[[], None]:
    """One step as a graph on CUDA, the step itself elsewhere."""
    for _ in range(3):
        step(pack, False)
    if pack.device.type != "cuda":
        return lambda: step(pack, False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(pack, False)
    return graph.replay


def rates(job: Job, step: Callable[[Pack, bool], None]) -> Outcome:
    if job.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    with torch.no_grad():
        nk.warmup(job.device)
        pack = filled_pack(job.shape, c51_only(job.shape, job.device))
        call = captured(pack, step)
        return Outcome(torch_rates(call, job.device, job.shape.members, job.repeats, job.seconds))


@rival("ours", precisions=("float32", "tf32"))
def ours(job: Job) -> Outcome:
    """One update of every member."""
    return rates(job, update)


@rival("ours-walking", precisions=("float32", "tf32"))
def ours_walking(job: Job) -> Outcome:
    """One update of every member and one bar in each of its 64 market walks, inserted into the replay."""
    return rates(job, iterate)
