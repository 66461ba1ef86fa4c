"""Fixtures that the trainer's tests share."""

import pytest
import torch
from tiny_trial import synthetic_bars


@pytest.fixture(scope="session")
def market_file(tmp_path_factory):
    """CSV of the synthetic market, read through the real loader."""
    path = tmp_path_factory.mktemp("market") / "bars.csv"
    synthetic_bars().to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny tensors: more threads only wait for one another."""
    torch.set_num_threads(1)
