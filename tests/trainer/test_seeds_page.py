"""docs/seeds.md names functions and tests that exist; nothing is imported to find out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text()
SEEDS = ("000", "003", "004")


@cache
def names(file):
    """Functions and classes of a file, methods as `Class.method`."""
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def rows(seed):
    """Cells of the table below the heading of a seed."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    found = [text for text in section if text.startswith(f"{seed}: ")]
    assert len(found) == 1
    lines = [line for line in found[0].splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


ROWS = [(seed, row) for seed in SEEDS for row in rows(seed)]


def exists(reference, separator):
    file, found, name = reference.partition(separator)
    return bool(found) and (ROOT / file).is_file() and name in names(file)


@pytest.mark.parametrize(("seed", "row"), ROWS, ids=[f"{seed}-{row[0][:40]}" for seed, row in ROWS])
def test_a_fact_has_functions_and_tests_that_exist(seed, row):
    fact, where, tests = row
    assert fact
    for cell, separator in ((where, ":"), (tests, "::")):
        references = re.findall(r"`([^`]+)`", cell)
        assert cell == ", ".join(f"`{reference}`" for reference in references)
        assert references
        assert [each for each in references if not exists(each, separator)] == []


def test_tests_are_test_functions():
    for _, (_, where, tests) in ROWS:
        assert all(Path(each.partition("::")[0]).name.startswith("test_") for each in re.findall(r"`([^`]+)`", tests))
        assert "tests/" not in where


def test_a_wrong_reference_would_be_seen():
    assert exists("trainer/step.py:update", ":")
    assert not exists("trainer/step.py:updates", ":")
    assert not exists("trainer/steps.py:update", ":")
    assert not exists("trainer/step.py", ":")
    assert not exists("tests/trainer/test_seeds_page.py::test_that_nobody_wrote", "::")


def test_files_that_are_named_in_passing_exist():
    for name in re.findall(r"`((?:trainer|analysis|sweep|benchmarks|numba_kernels)/[\w/]+\.py)`", PAGE):
        assert (ROOT / name).is_file(), name
