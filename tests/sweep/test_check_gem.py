"""`gemsweep check-gem` as a user types it: exit codes and what stands in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sweep import cli

GEM = """from trainer.gems import Gem

class Mine(Gem):
    name = "mine"
    inputs = ("trunk",)

    def forward(self, ctx):
        return ctx.trunk.square().sum((1, 2)) / SIZE
"""


def check_gem(monkeypatch, capsys, reference: str) -> tuple[int, str, str]:
    """Exit code, standard output and error."""
    monkeypatch.setattr(sys, "argv", ["gemsweep", "check-gem", reference])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user stands beside the file."""
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text(GEM.replace("SIZE", "ctx.trunk[0].numel()"))
    Path("bad.py").write_text(GEM.replace("SIZE", "ctx.trunk.numel()"))


def test_a_sound_gem_ends_with_0(monkeypatch, capsys):
    code, out, err = check_gem(monkeypatch, capsys, "good.py:Mine")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "gem mine: gradient enters at trunk; coefficient 0.1"
    assert out.splitlines()[-1] == "mine passes all 11 checks"


def test_a_gem_that_fails_ends_with_1_and_names_the_checks(monkeypatch, capsys):
    code, out, _ = check_gem(monkeypatch, capsys, "bad.py:Mine")
    assert code == 1
    assert "  FAIL  packs          the value of a member alone differs from that in a pack of 3: do not divide" in out
    assert out.splitlines()[-1] == "mine fails packs"


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("good.py", "say which class of it, as in 'good.py:MyGem'"),
        ("gone.py:Mine", "there is no file"),
        ("good.py:Other", "has no attribute 'Other'"),
        ("g6_branch", "give a built-in name (g6_branch_indep, "),
    ],
)
def test_what_cannot_be_checked_is_one_line_with_exit_code_2(monkeypatch, capsys, reference, named):
    code, out, err = check_gem(monkeypatch, capsys, reference)
    assert (code, out) == (2, "")
    assert named in err
    assert len(err.splitlines()) == 1
