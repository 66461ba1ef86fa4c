"""The configuration that follows from verdicts, and what the author is told to delete."""

from __future__ import annotations

import pytest
from planned_study import planned_study, verdict

from sweep import promote as promoting
from sweep.errors import ConfigError
from sweep.toml_file import read_config

G6, G10, G12 = "g6_branch_indep", "g10_temporal", "g12_predictive"
VERDICTS = [verdict(G6, "WIRE", "improves", 2, 0.2), verdict(G10, "DELETE", "zero"), verdict(G12)]


@pytest.fixture
def study(tmp_path):
    further = f"arms.further=[{{wired='{G6}', dose=0.2}}, {{off='noisy_nets'}}, {{off='{G10}'}}]"
    return planned_study(tmp_path, "sweep.trials=5", "sweep.seed=7", further)


def promoted(study, monkeypatch, verdicts, target=None):
    monkeypatch.setattr(promoting, "read_verdicts", lambda folder: verdicts)
    return promoting.promote(study.folder, target)


def test_the_next_configuration(study, monkeypatch):
    found = promoted(study, monkeypatch, VERDICTS)
    assert found.path == study.folder.parent / "study-next.toml"
    config = read_config(found.path, [], {})
    assert config.arms.gems == (G6, G12)
    assert {gem: (v.mode, v.dose) for gem, v in config.arms.base_arm().gems.items()} == {
        G6: ("wired", 0.2),
        G12: ("probe", 0.1),
    }
    assert [arm.off for arm in config.arms.further] == ["noisy_nets"]
    assert (config.sweep.seed, config.sweep.name, config.sweep.label) == (8, "", "after study")
    assert config.trainer == study.config.trainer
    assert config.data == study.config.data


def test_the_file_opens_with_its_evidence(study, monkeypatch):
    text = promoted(study, monkeypatch, VERDICTS).path.read_text()
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert study.plan["verdict"]["rules_hash"] in head[0]
    assert f"#   {G10}: DELETE (zero): as it is" in head


def test_a_reason_with_line_breaks_stays_a_comment(study, monkeypatch):
    broken = verdict(G12)
    broken.reason = "first\n[sweep]\rseed = 99"
    config = read_config(promoted(study, monkeypatch, [*VERDICTS[:2], broken]).path, [], {})
    assert config.sweep.seed == 8


def test_files_of_deleted_gems_are_named(study, monkeypatch):
    lines = promoted(study, monkeypatch, VERDICTS).lines()
    assert "delete the code: trainer/gems/temporal_consistency.py" in lines
    assert lines[-1].startswith("go on with: gemsweep confirm ")
    assert promoting.file_of("/work/mine.py:Mine") == "/work/mine.py"
    assert promoting.file_of("package.module:Mine") == "package.module"


def test_files_of_built_in_gems_are_where_the_registry_finds_them():
    from trainer.gems.registry import BUILTIN

    for gem, reference in BUILTIN.items():
        assert promoting.FILES[gem] == reference.rpartition(":")[0].replace(".", "/") + ".py"


def test_without_a_wired_gem_there_is_nothing_to_confirm(study, monkeypatch):
    lines = promoted(study, monkeypatch, [verdict(G6), *VERDICTS[1:]]).lines()
    assert lines[-1].startswith("go on with: gemsweep decide ")


def test_no_gem_left(study, monkeypatch):
    found = promoted(study, monkeypatch, [verdict(gem, "DELETE", "zero") for gem in (G6, G10, G12)])
    assert found.path is None
    assert len(found.files) == 3
    assert found.lines()[-1] == "no gem is left, so there is no next configuration"
    assert not list(study.folder.parent.glob("*.toml"))


def test_nothing_is_overwritten(study, monkeypatch, tmp_path):
    target = tmp_path / "mine.toml"
    target.write_text("# mine")
    with pytest.raises(ConfigError, match="exists"):
        promoted(study, monkeypatch, VERDICTS, target)
    assert target.read_text() == "# mine"
