"""The command line: what is refused before anything starts, with which sentence and exit code, and what is loaded."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from sweep import cli
from sweep.toml_file import default_text

ROOT = Path(__file__).resolve().parents[2]
BARS = "timestamp,symbol,open,high,low,close,volume\n"


def gemsweep(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and error of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["gemsweep", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--set", "trainer.learnin_rate=1"], "trainer.learnin_rate: unknown key; did you mean 'trainer.learning"),
        (["--set", "trainer.epochs=many"], "trainer.epochs: should be a valid integer; got 'many'"),
        (["--trials", "0"], "sweep.trials: should be greater than or equal to 1; got 0"),
        (["--set", "trainer.score_epochs=99"], "score_epochs must not exceed epochs"),
        (["--set", "data.source=gone.csv"], "data.source: no file"),
        (["gone.toml"], "gone.toml: no such file"),
        (["bad.toml"], "bad.toml: not valid TOML"),
        (["--set", "data.source=bad.csv", "--set", "data.symbols=[]"], "bad.csv"),
        (["--set", "sweep.threads=9999"], "sweep.threads: asked for 9999 threads"),
        (["--set", "sweep.device=cuda", "--set", "sweep.gpus_per_trial=512"], "sweep.gpus_per_trial: asked for 512"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_line_with_exit_code_2_and_leaves_nothing(monkeypatch, capsys, tmp_path, arguments, named):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[sweep\n")
    Path("bad.csv").write_text(BARS + "2001-01-02,A,1,2,0.5,1.5,10\n2001-01-03,A,1,x,0.5,1.5,10\n")
    before = sorted(tmp_path.iterdir())
    started = time.monotonic()
    code, out, err = gemsweep(monkeypatch, capsys, "run", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert named in err
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before
    assert time.monotonic() - started < 20  # 2 seconds where nothing else runs


def test_a_bad_row_is_named_with_its_file_and_line(monkeypatch, capsys, tmp_path):
    (tmp_path / "bars.csv").write_text(BARS + "2001-01-02,A,1,2,0.5,1.5,10\n2001-01-03,A,1,x,0.5,1.5,10\n")
    code, _, err = gemsweep(
        monkeypatch, capsys, "run", "--set", f"data.source={tmp_path / 'bars.csv'}", "--set", "data.symbols=[]"
    )
    assert code == 2
    assert "bars.csv" in err
    assert "3" in err.split("bars.csv", 1)[1]  # the line of the file, heading included


@pytest.mark.parametrize(
    ("verb", "code"),
    [(["resume", "nowhere"], 4), (["report", "nowhere"], 2), (["debug", "nowhere", "--trial", "x-b0"], 2)],
)
def test_a_folder_that_is_no_experiment_is_named(monkeypatch, capsys, tmp_path, verb, code):
    monkeypatch.chdir(tmp_path)
    got, _, err = gemsweep(monkeypatch, capsys, *verb)
    assert got == code
    assert "nowhere" in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_option_is_a_refusal(monkeypatch, capsys):
    code, _, err = gemsweep(monkeypatch, capsys, "run", "--trails", "3")
    assert code == 2
    assert "--trails" in err


def test_the_printed_configuration_is_the_embedded_one(monkeypatch, capsys):
    code, out, _ = gemsweep(monkeypatch, capsys, "config")
    assert code == 0
    assert out == default_text()
    assert tomllib.loads(out)["sweep"]["label"] == "smoke, not evidence"


LOADED = """
import sys
sys.argv = ["gemsweep", *sys.argv[1:]]
from sweep.cli import main
try:
    main()
except SystemExit:
    pass
print("loaded:", *sorted({"ray", "torch", "numba", "pandas", "matplotlib"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["config"], set()),
        (["report", "nowhere"], {"pandas", "matplotlib"}),
        (["run", "--set", "trainer.x=1"], {"pandas"}),
    ],
)
def test_what_reads_or_refuses_loads_neither_ray_nor_torch(arguments, allowed):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, cwd=ROOT)
    loaded = done.stderr.split("loaded:")[1].split()
    assert set(loaded) <= allowed


def test_importing_the_package_loads_neither_ray_nor_torch():
    check = "import sweep, sweep.run, sweep.plan, sys; print({'ray', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"
