"""The run is real: members of the default configuration beat their own untrained network on the bars they train on."""

import numpy as np
import pytest
from tiny_trial import OFF, run

from trainer.config import Member, TrialSpec


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_members_beat_their_untrained_network_on_the_train_span():
    members = tuple(Member(arm="off", seed=seed, fold=fold) for seed in range(8) for fold in (0, 1))
    spec = TrialSpec(key="learning-b0", config_key="learning", arms=(OFF,), members=members)
    records = run(spec).records
    first, last = records[0].columns, records[-1].columns
    assert list(last["status"]) == ["ok"] * len(members)
    for number in ("sharpe", "log_wealth"):
        better = np.asarray(last[f"eval/train/{number}"]) > np.asarray(first[f"eval/train/{number}"])
        assert better.mean() >= 0.8, (number, first[f"eval/train/{number}"], last[f"eval/train/{number}"])
    assert np.mean(records[-1].columns["loss/c51"]) < np.mean(records[1].columns["loss/c51"])
