"""Calls in processes of their own, and the choice among variants. Children import this file: it stays light."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import pytest
import variants
from apart import apart
from rivals import Job
from shapes import Shape
from shown import shares, table
from variants import best_of, fastest

JOB = Job("some", Shape(members=2), "cpu", "tf32", repeats=3, seconds=0.5)


@dataclass(frozen=True)
class Named:
    name: str
    rate: float


def double(x: int) -> int:
    return 2 * x


def fail() -> None:
    raise ValueError("no such layout")


def leave() -> None:
    os._exit(3)


def rates(job: Job, variant: Named, repeats: int, seconds: float) -> list[float]:
    if variant.name == "sleeps":
        raise TimeoutError(f"timed out after {job.limit:g} s")
    if variant.name == "fails":
        raise RuntimeError("ValueError: no such layout")
    return [variant.rate * (1.0 if repeats == 1 else 0.9)] * repeats


def test_a_call_apart_returns_and_raises() -> None:
    assert apart(double, 21, limit=60.0) == 42
    with pytest.raises(RuntimeError, match="ValueError: no such layout"):
        apart(fail)
    with pytest.raises(RuntimeError, match="code 3"):
        apart(leave)


def test_a_call_past_its_limit_is_killed() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="timed out after 1 s"):
        apart(time.sleep, 120.0, limit=1.0)
    assert time.monotonic() - began < 60.0
    assert not multiprocessing.active_children()


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """`best_of` calls `rates` in this process; the limits that it set."""
    limits: list[Any] = []

    def call(function: Any, *arguments: Any, limit: float | None = None) -> Any:
        limits.append(limit)
        return function(*arguments)

    monkeypatch.setattr(variants, "apart", call)
    return limits


def test_the_fastest_variant_is_measured_anew_and_the_others_are_noted(direct: list[Any]) -> None:
    known = [Named("slow", 10.0), Named("sleeps", 99.0), Named("fast", 20.0), Named("fails", 99.0)]
    found = best_of(JOB, known, rates)
    assert (found.variant, found.values) == ("fast", [18.0] * 3)
    wanted = {"slow": 10.0, "sleeps": "timed out after 90 s", "fast": 20.0, "fails": "ValueError: no such layout"}
    assert found.tried == wanted
    assert direct == [90.0] * 4 + [90.0 + 2 * 4 * 0.5]


def test_a_variant_by_name_is_tried_only_when_named(direct: list[Any]) -> None:
    known, more = [Named("slow", 10.0)], [Named("hat", 20.0)]
    assert best_of(JOB, known, rates, more).variant == "slow"
    assert best_of(replace(JOB, variants=("hat",)), known, rates, more).variant == "hat"


def test_no_variant_that_ran_is_an_error(direct: list[Any]) -> None:
    with pytest.raises(RuntimeError, match="timed out"):
        best_of(JOB, [Named("sleeps", 1.0)], rates)
    assert fastest({"a": "timed out"}) is None


def test_jax_tries_scatter_first_and_hat_only_by_name() -> None:
    pytest.importorskip("jax")
    from jax_packed import BY_NAME, VARIANTS

    assert VARIANTS[0].name == "padded-scatter-tree-x1"
    assert [v.projection for v in VARIANTS] == ["scatter"] * 12 + ["einsum"]
    assert {v.projection for v in BY_NAME} == {"hat"}
    assert len({v.name for v in (*VARIANTS, *BY_NAME)}) == 25


CEILINGS = {"copy_bytes": {"median": 4e12}, "tf32_operations": {"median": 400e12}, "bf16_operations": {"median": 8e14}}


def test_shares_of_the_ceilings() -> None:
    job = replace(JOB, name="ours")
    assert (job.shape.products, job.shape.traffic) == (1_139_933_184, 32 * 227_173 + 2 * 4 * 512 * 57)
    found = shares(job, 50_000.0, CEILINGS)
    assert found["of_products"] == pytest.approx(50_000 * 1_139_933_184 / 400e12)
    assert found["of_copy"] == pytest.approx(50_000 * 7_503_008 / 4e12)
    assert shares(replace(job, precision="bf16"), 50_000.0, CEILINGS)["of_products"] == found["of_products"] / 2
    assert "of_products" not in shares(replace(job, precision="float32"), 50_000.0, CEILINGS)
    assert shares(replace(job, name="full"), 50_000.0, CEILINGS) == {}, "it has products that are not counted"


def test_the_table_shows_shares_where_there_are_any() -> None:
    rate = {"median": 100.0, "min": 90.0, "max": 110.0}
    row = {"rival": "ours", "name": "ours-tf32", "members": 2, "precision": "tf32", "variant": ""}
    row["updates_per_second"] = rate
    heads, with_shares, without = table([row | {"of_products": 0.142, "of_copy": 0.0938}, row], "ours-tf32")
    assert heads.split()[-3:] == ["FLOP/s", "bytes/s", "variant"]
    assert with_shares.split()[-5:] == ["1.00", "14.2", "%", "9.4", "%"]
    assert without.split()[-1] == "1.00"
