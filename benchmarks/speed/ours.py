"""gemsweep's own step, on the network, batch and replay size of the rivals. Imported by `run.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import processes
import torch
from rivals import Job, Outcome, rival
from shapes import Shape
from timing import torch_rates

import numba_kernels as nk
from trainer.capture import Step
from trainer.config import (
    BUILTIN_GEMS,
    FEATURES,
    ArmConfig,
    DataConfig,
    GemConfig,
    Machine,
    Member,
    NetworkConfig,
    TrainerConfig,
    TrialSpec,
)
from trainer.data.source import load_table
from trainer.pack import Pack, build_pack
from trainer.step import begin_walks, iterate, update, walk

PROBED = {gem: GemConfig(mode="probe") for gem in BUILTIN_GEMS}
C51_ONLY = ArmConfig(name="base", features_off=FEATURES)  # C51, double DQN, n-step, Adam, clip, target update
BARE = ArmConfig(name="base")
FULL = ArmConfig(name="base", gems=PROBED)  # every feature of the default configuration


def spec_of(shape: Shape, device: str, arm: ArmConfig, precision: str = "tf32") -> TrialSpec:
    """The trainer at the sizes of `shape`, all members in one arm."""
    network = NetworkConfig(trunk=shape.trunk, head=shape.head, atoms=shape.atoms, v_max=shape.v_max)
    trainer = TrainerConfig(
        batch_size=shape.batch,
        replay_capacity=shape.capacity,
        environments=shape.environments,
        n_step=shape.n_step,
        network=network,
    )
    return TrialSpec(
        key="speed-b0",
        config_key="speed",
        data=DataConfig(),
        trainer=trainer,
        arms=(arm,),
        members=tuple(Member(arm=arm.name, seed=s, fold=s % 2) for s in range(shape.members)),
        machine=Machine.model_validate({"device": device, "precision": precision}),
    )


def filled_pack(shape: Shape, spec: TrialSpec) -> Pack:
    """A pack whose features are random columns of the rivals' width and whose replay is full."""
    table = load_table(spec.data)
    features = np.random.default_rng(0).normal(size=(len(table.features), shape.features)).astype(np.float32)
    pack = build_pack(spec, replace(table, features=features))
    begin_walks(pack)
    for _ in range(shape.capacity // shape.environments + shape.n_step):
        walk(pack)
    return pack


def make(
    shape: Shape,
    device: torch.device,
    arm: ArmConfig,
    step: Step,
    diagnose: bool = False,
    captured: bool = True,
    precision: str = "tf32",
) -> Callable[[], None]:
    """One step of a filled pack, as a graph on CUDA when `captured`."""
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else "highest")  # TF32
    with torch.no_grad():
        nk.warmup(device)
        pack = filled_pack(shape, spec_of(shape, str(device), arm, precision))
        for _ in range(3):
            step(pack, diagnose)
        if device.type != "cuda" or not captured:
            return torch.no_grad()(lambda: step(pack, diagnose))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(pack, diagnose)
    return graph.replay


def packed(job: Job, arm: ArmConfig, step: Step, diagnose: bool = False) -> Outcome:
    call = make(job.shape, torch.device(job.device), arm, step, diagnose, precision=job.precision)
    return Outcome(torch_rates(call, job.device, job.shape.members, job.repeats, job.seconds))


@rival("ours")
def ours(job: Job) -> Outcome:
    """One update of every member."""
    return packed(job, C51_ONLY, update)


@rival("ours-walking")
def ours_walking(job: Job) -> Outcome:
    """One update of every member and one bar in each of its 64 market walks, inserted into the replay."""
    return packed(job, C51_ONLY, iterate)


@rival("full")
def full(job: Job) -> Outcome:
    """The same with every feature of the default configuration."""
    return packed(job, FULL, iterate)


@rival("full-diagnosed")
def full_diagnosed(job: Job) -> Outcome:
    """An iteration that measures all gems and norms; a default epoch has 4 of them in 50."""
    return packed(job, FULL, iterate, diagnose=True)


@rival("bare")
def bare(job: Job) -> Outcome:
    """Every feature, no gem: what probing is compared with."""
    return packed(job, BARE, iterate)


@rival("bare-diagnosed")
def bare_diagnosed(job: Job) -> Outcome:
    """An iteration that measures all norms."""
    return packed(job, BARE, iterate, diagnose=True)


def full_alone(job: Job, captured: bool) -> Outcome:
    """The full trainer as separate processes of one member each, which is what separate trials are."""
    one, how = replace(job.shape, members=1), (FULL, iterate, False, captured)
    return Outcome(processes.measure(make, one, job.device, how, job.shape.members, job.repeats, job.seconds))


rival("full-processes-16-eager", ("tf32",), 16)(lambda job: full_alone(job, captured=False))
rival("full-processes-16-captured", ("tf32",), 16)(lambda job: full_alone(job, captured=True))
