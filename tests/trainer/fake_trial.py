"""A trial body of a few lines for the record, reporter and replay tests: random walks instead of training."""

from __future__ import annotations

from functools import partial

import numpy as np

from trainer.config import ArmConfig, Member, TrainerConfig, TrialSpec
from trainer.record import Checkpoint
from trainer.reporter import EpochRecord

EPOCHS = 4


def fake_spec(key="0123456789-b0", epochs=EPOCHS, seeds=(0, 1)):
    members = tuple(Member(arm="base", seed=seed, fold=0) for seed in seeds)
    trainer = TrainerConfig(epochs=epochs, score_epochs=1)
    return TrialSpec(key=key, config_key="0123456789", trainer=trainer, arms=(ArmConfig(name="base"),), members=members)


def fake_columns(spec, epoch, walk):
    """One entry a member of every type that a part can hold, NaN, -0.0 and empty lists among them."""
    members = range(len(spec.members))
    return {
        "arm": [member.arm for member in spec.members],
        "seed": np.array([member.seed for member in spec.members], np.int64),
        "fold": np.zeros(len(spec.members), np.int32),
        "epoch": np.full(len(spec.members), epoch, np.int32),
        "frozen": np.array([False for _ in members]),
        "loss/c51": walk[:, 2].copy(),
        "grad/c51/trunk": np.where(np.arange(len(members)) == 0, np.float32(np.nan), -0.0 * walk[:, 0]),
        "returns/judge": [walk[row].astype(np.float64) if epoch else np.zeros(0) for row in members],
        "clock/seconds": np.random.default_rng().random(len(members)),
    }


def fake_trial(spec, reporter, *, disturb=None):
    """`disturb(epoch, walk)` changes the state after an epoch, as a fault would."""
    start = reporter.resume()
    if start is None:
        first, walk = 0, np.zeros((len(spec.members), 5), np.float32)
    else:
        first, walk = start.epoch + 1, start.tensors["walk"].numpy().copy()
    for epoch in range(first, spec.trainer.epochs + 1):
        draws = [np.random.default_rng([member.seed, epoch]).random(5, np.float32) for member in spec.members]
        walk += np.stack(draws)
        if disturb:
            disturb(epoch, walk)
        record = EpochRecord(epoch, fake_columns(spec, epoch, walk), float(walk.mean()), [f"epoch {epoch}"])
        state = partial(Checkpoint, epoch, {"walk": walk}, {"updates": epoch * 10})
        if reporter.epoch(record, state):
            return
    reporter.finish({"epochs": spec.trainer.epochs})
