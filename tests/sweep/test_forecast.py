"""What `gemsweep plan` says of a configuration, and that it writes nothing."""

from __future__ import annotations

import io
import json

import pytest
from planned_study import settings
from rich.console import Console

from sweep.errors import ConfigError
from sweep.forecast import forecast, print_forecast


def printed(found) -> str:
    out = io.StringIO()
    print_forecast(found, Console(file=out, width=100))
    return out.getvalue()


@pytest.fixture
def found(tmp_path):
    return forecast(settings(tmp_path, "sweep.trials=12", "sweep.concurrent=2"), sd=0.4, timed=False)


def test_looks_runs_and_memory(found, tmp_path):
    assert [look.n for look in found.looks] == [5, 8, 12]
    assert (found.packs, found.members, found.claims) == (12, 12 * 2 + 2, 3)  # two seeds, and the off arm once
    assert 0.5 < found.pack_gb < 1.5
    assert found.seconds is None
    assert list(tmp_path.iterdir()) == []


def test_the_text(found):
    text = printed(found)
    assert "0.40 (given)" in text
    assert "12 trials, 26 runs" in text
    assert "timed on this machine" not in text


def test_a_run_that_decides_nothing_is_told_so(tmp_path):
    assert "decides nothing; the first needs 5" in printed(forecast(settings(tmp_path, "sweep.trials=3"), timed=False))


def test_json_has_the_same_numbers(found):
    table = json.loads(json.dumps(found.to_dict()))
    assert table["looks"][0]["half_width"] == found.looks[0].half_width
    assert set(table["looks"][0]["power"]) == {"0.2", "0.3", "0.5"}


def test_timed_it_trains_and_records_nothing(tmp_path):
    found = forecast(settings(tmp_path, "sweep.trials=5", "sweep.concurrent=1", "trainer.epochs=3"), timed=True)
    assert found.pack_seconds > 0.0
    assert found.seconds == pytest.approx(5 * found.pack_seconds)
    assert "timed on this machine" in printed(found)
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_would_refuse_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no file"):
        forecast(settings(tmp_path, "data.source='nowhere.csv'"))
