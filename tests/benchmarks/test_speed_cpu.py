"""The CPU comparisons: how times become figures, and a short run of each."""

from __future__ import annotations

import multiprocessing as mp
import threading
from dataclasses import replace

import cpu_libraries
import cpu_packed
import pytest
from library_updates import _products
from shapes import Shape

SMALL = Shape(batch=8, capacity=64, rows=100, trunk=(16, 16), head=8, atoms=11, environments=8)


def test_ratios_are_taken_repeat_by_repeat() -> None:
    spent = {
        "ours": {"wall_ms": [1.0, 2.0, 4.0], "cpu_ms": [1.0, 1.0, 1.0]},
        "other": {"wall_ms": [3.0, 4.0, 4.0], "cpu_ms": [2.0, 3.0, 5.0]},
    }
    found = cpu_libraries.summaries(spent, {"ours": 7, "other": 9})
    assert found["other"]["wall_ratio"]["values"] == [3.0, 2.0, 1.0]
    assert found["other"]["cpu_ratio"]["median"] == 3.0
    assert found["ours"]["cpu_ratio"]["values"] == [1.0] * 3
    assert "cpu_ratio" not in cpu_libraries.summaries({"other": spent["other"]}, {"other": 9})["other"]
    assert len(list(cpu_libraries.lines(found))) == 3


def test_the_products_alone_have_the_operations_of_an_update() -> None:
    sizes = _products(Shape())
    assert sum(2 * left[0] * left[1] * right[1] for left, right in sizes) == Shape().products


def test_ours_is_timed_beside_plain_pytorch() -> None:
    found = cpu_libraries.measure(SMALL, repeats=2, seconds=0.05, names=("ours", "torch-member"))
    assert all(len(row["cpu_ms"]["values"]) == 2 for row in found.values())
    assert found["torch-member"]["parameters"] == found["ours"]["parameters"]


def test_what_a_window_spends() -> None:
    done, wall, processor = cpu_packed.spend(lambda: sum(range(100_000)), 8, 0.05)
    assert done % 8 == 0
    assert wall >= 0.05
    assert 0.0 < processor < 2.0 * wall


def test_two_processes_add_their_rates_of_the_clock_and_share_their_processor_time() -> None:
    pipes = [mp.Pipe() for _ in range(2)]

    def answer(number: int, spent: cpu_packed.Spent) -> None:
        pipes[number][1].recv()
        pipes[number][1].send(spent)

    for number, spent in enumerate([(100, 2.0, 1.0), (100, 1.0, 3.0)]):
        threading.Thread(target=answer, args=(number, spent)).start()
    assert cpu_packed.window([mine for mine, _ in pipes], 1.0) == {"wall": 150.0, "cpu": 50.0}


@pytest.mark.slow
def test_packed_beside_two_processes() -> None:
    ways = cpu_packed.WAYS[0], cpu_packed.WAYS[2]
    found = cpu_packed.measure(replace(SMALL, members=2), "c51", 2, 0.1, ways)
    assert set(found) == {"packed, 1 thread", "2 processes of half"}
    assert all(len(row["cpu"]["values"]) == 2 and row["cpu"]["min"] > 0 for row in found.values())
