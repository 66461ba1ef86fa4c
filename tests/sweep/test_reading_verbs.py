"""compare, diag, show, report and export as commands: what they print, what they refuse, and what they never import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from synthetic_experiment import plan_of, specs, write_experiment

import sweep.cli as cli
from trainer.record import write_plan

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Two experiments of two configurations and a plan that nobody ran."""
    folder = tmp_path_factory.mktemp("read")
    trials = specs(configs=2, seeds=2, folds=1, epochs=2)
    write_experiment(folder / "one", trials, name="one")
    write_experiment(folder / "two", trials[:1], name="two")
    write_plan(folder / "planned", plan_of(trials, name="planned"))
    return folder


@pytest.fixture
def gemsweep(monkeypatch, capsys):
    """Exit code, standard output and error of the command in this process."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["gemsweep", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


VERBS = {
    "compare": ("compare", "one", "two"),
    "diag": ("diag", "one"),
    "diag grad_trunk": ("diag", "one", "--group", "grad_trunk"),
    "diag gates": ("diag", "one", "--group", "gates"),
    "show": ("show", "one"),
    "show planned": ("show", "planned"),
    "report": ("report", "one"),
    "report planned": ("report", "planned"),
}


def in_storage(storage, words):
    return [storage / word if (storage / word).exists() else word for word in words]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_prints_and_ends_well(gemsweep, storage, verb):
    code, out, err = gemsweep(*in_storage(storage, VERBS[verb]))
    assert (code, err) == (0, "")
    assert out.startswith(("one", "planned", "A  one"))


@pytest.mark.parametrize("verb", VERBS)
def test_json_is_one_document_without_numbers_that_json_lacks(gemsweep, storage, verb):
    code, out, err = gemsweep(*in_storage(storage, VERBS[verb]), "--json")
    assert (code, err) == (0, "")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert isinstance(found, dict)


def test_json_says_what_the_table_says(gemsweep, storage):
    compared = json.loads(gemsweep("compare", storage / "one", storage / "two", "--json")[1])
    assert [side["name"] for side in compared["sides"]] == ["one", "two"]
    assert compared["effects"][0]["paired"] is True
    assert compared["effects"][0]["identical"] == compared["effects"][0]["pairs"] == 2
    state = json.loads(gemsweep("show", storage / "planned", "--json")[1])
    assert state["trials"][0]["best"] is None
    report = json.loads(gemsweep("report", storage / "one", "--json")[1])
    assert {v["gem"]: v["label"] for v in report["verdicts"]}["g10_temporal"] == "MORE TRIALS"
    assert len(report["trials"]) == 2
    diag = json.loads(gemsweep("diag", storage / "one", "--group", "grad_trunk", "--json")[1])
    assert diag["fields"][0]["cells"][0] == {
        "trial": report["trials"][0]["trial"] if report["trials"][0]["launch"] == 0 else report["trials"][1]["trial"],
        "epoch": 0, "value": None, "mark": "unmeasured", "gate": "",
    }  # fmt: skip


def test_only_the_plain_report_writes(gemsweep, storage, tmp_path):
    write_experiment(tmp_path, specs(configs=1, seeds=2, folds=1, epochs=2))
    before = sorted(path for path in tmp_path.rglob("*"))
    for words in (["show"], ["diag"], ["report", "--json"], ["report", "--as-commit"], ["compare", storage / "one"]):
        assert gemsweep(*words, tmp_path)[0] == 0
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert gemsweep("report", tmp_path)[0] == 0
    assert (tmp_path / "report.html").exists()


def test_report_as_commit(gemsweep, storage):
    code, out, err = gemsweep("report", storage / "one", "--as-commit")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "More trials for g6_branch_indep, g10_temporal, g12_predictive"
    assert max(map(len, out.splitlines())) <= 72
    assert out.endswith("\n")
    assert not out.endswith("\n\n")


def test_export_and_check(gemsweep, storage, tmp_path):
    target = tmp_path / "one.tar.gz"
    code, out, err = gemsweep("export", storage / "one", "--to", target)
    assert (code, err) == (0, "")
    assert out.startswith(f"{target}: ")
    code, again, err = gemsweep("export", "--check", target)
    assert (code, err) == (0, "")
    assert again == out + "every file is as its MANIFEST says\n"


def test_export_goes_where_one_stands(gemsweep, storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gemsweep("export", storage / "one")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["one.tar.gz"]


REFUSED = {
    "no experiment": (("show", "none"), "none/plan.json: not found; give the experiment folder"),
    "no experiment to report": (("report", "none", "--json"), "none/plan.json: not found"),
    "no experiment to compare": (("compare", "one", "none"), "none/plan.json: not found"),
    "no experiment for diag": (("diag", "none"), "none/plan.json: not found"),
    "no experiment to export": (("export", "none"), "none/plan.json: not found"),
    "one to compare": (("compare", "one"), "name a second one to compare it with"),
    "no such group": (("diag", "one", "--group", "grads"), "--group grads: not a group; give one of gems, grad_trunk"),
    "json of a stream": (("show", "one", "--follow", "--json"), "leave out --follow"),
    "two forms": (("report", "one", "--json", "--as-commit"), "give one of them"),
    "check and write": (("export", "one", "--check", "--to", "x"), "leave out --to"),
    "no archive": (("export", "--check", "none"), "no such file; give an archive that `gemsweep export` wrote"),
    "a folder": (("export", "--check", "one"), "no such file; give an archive"),
    "no folder to write to": (("export", "one", "--to", "none/x.tar.gz"), "none/x.tar.gz: cannot be written"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line_that_names_the_way_out(gemsweep, storage, case, monkeypatch):
    monkeypatch.chdir(storage)
    words, said = REFUSED[case]
    code, out, err = gemsweep(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
    assert len(err.splitlines()) == 1


TURNED_AWAY = {"rules of another version": {"verdict": {"rules": {"beta": 1}}}, "no trials": {"trials": [{"key": "x"}]}}


@pytest.mark.parametrize("plan", TURNED_AWAY)
@pytest.mark.parametrize("verb", ["show", "diag", "report --json", "report --as-commit", "compare"])
def test_a_plan_that_this_version_does_not_know_is_no_traceback(gemsweep, storage, tmp_path, plan, verb):
    write_plan(tmp_path / "odd", plan_of(specs(configs=1), name="odd") | TURNED_AWAY[plan])
    words = verb.split()
    code, out, err = gemsweep(
        *words[:1], tmp_path / "odd", *words[1:], *([storage / "one"] if verb == "compare" else [])
    )
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert str(tmp_path / "odd") in err


READING = {
    "show": ("show", "one"),
    "follow": ("show", "one", "--follow"),
    "show as JSON": ("show", "planned", "--json"),
    "an error": ("show", "none"),
    "compare": ("compare", "one", "two"),
    "diag": ("diag", "one", "--group", "gates"),
    "commit": ("report", "one", "--as-commit"),
    "report": ("report", "one"),
    "export": ("export", "one"),
}


@pytest.mark.parametrize("verb", READING)
def test_neither_ray_nor_torch_is_imported(storage, verb, tmp_path):
    """In a process of its own, whose exit says what had been imported by the end of the command."""
    script = f"""
import sys
sys.argv = ["gemsweep", *{[str(word) for word in in_storage(storage, READING[verb])]!r}]
from sweep import cli
try:
    cli.main()
except SystemExit:
    pass
print("imported:", [name for name in ("ray", "torch", "numba") if name in sys.modules])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "imported: []"
