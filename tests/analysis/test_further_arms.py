"""Arms beside the base arm: what each changes, and that no table, verdict or report of the base arm reads them."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from synthetic_experiment import GEMS, specs, write_experiment

import analysis
from analysis.arms import feature_off, is_off_arm, wired_gem
from analysis.frames import trials_frame
from analysis.tables import print_report
from trainer.config import ArmConfig, GemConfig, Member

BASE = ArmConfig(name="base", gems={gem: GemConfig() for gem in GEMS})
OFF = ArmConfig(name="off", gems={gem: GemConfig(mode="off") for gem in GEMS})


def changed(name, features=(), **gems):
    return ArmConfig(name=name, gems={**BASE.gems, **gems}, features_off=features)


WIRED = changed("wired-g10_temporal-0.2", g10_temporal=GemConfig(mode="wired", dose=0.2))
MORE = changed("wired-g10_temporal-0.4", g10_temporal=GemConfig(mode="wired", dose=0.4))
WITHOUT = changed("off-noisy_nets", ("noisy_nets",))
ARMS = [  # arm, wired gem, feature off, off arm
    (BASE, None, None, False),
    (OFF, None, None, True),
    (WIRED, ("g10_temporal", 0.2), None, False),
    (WITHOUT, None, "noisy_nets", False),
    (OFF.model_copy(update={"features_off": ("iqn",)}), None, None, False),
    (WIRED.model_copy(update={"features_off": ("iqn",)}), None, None, False),
    (changed("two", ("iqn", "cql")), None, None, False),
    (changed("off-g10_temporal", g10_temporal=GemConfig(mode="off")), None, None, False),
]


@pytest.mark.parametrize(("arm", "wired", "feature", "off"), ARMS, ids=[str(i) for i in range(len(ARMS))])
def test_what_an_arm_changes(arm, wired, feature, off):
    assert (wired_gem(BASE, arm), feature_off(BASE, arm), is_off_arm(BASE, arm)) == (wired, feature, off)


def test_the_base_arm_may_leave_out_features_itself():
    base = BASE.model_copy(update={"features_off": ("iqn", "cql")})
    assert feature_off(base, BASE) is None
    assert feature_off(base, changed("more", ("cql", "iqn", "noisy_nets"))) == "noisy_nets"
    assert is_off_arm(base, OFF.model_copy(update={"features_off": ("cql", "iqn")}))
    assert wired_gem(base, WIRED.model_copy(update={"features_off": ("cql", "iqn")})) == ("g10_temporal", 0.2)


def with_arms(spec, *arms):
    members = [Member(arm=arm.name, seed=m.seed, fold=m.fold) for arm in arms for m in spec.members if m.arm == "base"]
    return spec.model_copy(update={"arms": (*spec.arms, *arms), "members": (*spec.members, *members)})


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    folder = tmp_path_factory.mktemp("further") / "made-up"
    write_experiment(folder, [with_arms(spec, WIRED, MORE, WITHOUT) for spec in specs(configs=5, seeds=2)])
    return analysis.load(folder)


def ours(frame):
    return frame["arm"].isin(["base", "off"])


def with_frames(found, members, scores, epochs):
    states = found.trials.set_index("trial")[["status", "cause", "error"]].to_dict("index")
    trials = trials_frame(found.specs, states, members, scores)
    judge = found.judge.loc[epochs.index]
    return replace(found, members=members, scores=scores, epochs=epochs, judge=judge, trials=trials)


@pytest.fixture(scope="module")
def bare(full):
    """The same experiment without a row of the further arms."""
    return with_frames(full, *(frame[ours(frame)] for frame in (full.members, full.scores, full.epochs)))


@pytest.fixture(scope="module")
def extreme(full):
    """The same experiment with further arms that went wrong in every number."""
    frames = [full.members.copy(), full.scores.copy(), full.epochs.copy()]
    for frame in frames:
        names = [name for name in frame.select_dtypes("float64").columns if not name.endswith("status")]
        frame.loc[~ours(frame), names] = 100.0 * frame.loc[~ours(frame), names] - 3.0
        frame.loc[~ours(frame), "status"] = "frozen"
    frames[1].loc[~ours(frames[1]), "failed"] = True
    return with_frames(full, *frames)


def test_the_further_arms_are_scored_beside_the_base_arm(full, bare):
    assert len(full.scores) == 5 * 4 * 2 + 2
    assert len(bare.scores) == 5 * 2 + 2
    assert full.scores["sharpe"].notna().all()
    assert full.purity.state == "pure"


ABOUT_THE_BASE_ARM = ("spread", "headline", "health", "gradients", "trials", "words")


def parts_of(page):
    """Sections by their anchor, and what of section 4 tells of the base arm alone."""
    sections = {found[1]: found[0] for found in re.finditer(r'<section id="(\w+)">.*?</section>', page, re.DOTALL)}
    return sections | {"spread": sections["units"].split('<div id="spread">')[1]}


def test_no_number_about_the_base_arm_comes_from_the_further_arms(extreme, bare, tmp_path):
    """Verdicts read the wired arms, and share alpha with every dose; what tells of the base arm must not."""
    with_arms, without = (
        parts_of(analysis.write_report(found, tmp_path / "page.html").read_text()) for found in (extreme, bare)
    )
    for name in ABOUT_THE_BASE_ARM:
        assert with_arms[name] == without[name]
    assert WIRED.name in with_arms["arms"]
    assert WIRED.name not in without["arms"]


def test_further_arms_are_told_with_their_pairs_and_failures(full):
    scores = full.scores.copy()
    broken = (scores["arm"] == WIRED.name) & (scores["seed"] == 1)
    scores.loc[broken, "status"] = "bankrupt"
    found = {arm.name: arm for arm in analysis.further_arms(replace(full, scores=scores))}
    assert list(found) == ["off", WIRED.name, MORE.name, WITHOUT.name]
    runs = scores.set_index(["config", "arm", "seed"])["sharpe"].unstack("arm")
    for name in (WIRED.name, WITHOUT.name):
        difference = (runs[name] - runs["base"]).dropna()
        assert (found[name].pairs, found[name].median) == (len(difference), pytest.approx(difference.median()))
    assert found[WIRED.name].change == "g10_temporal wired at a dose of 0.2"
    assert found[WITHOUT.name].change == "without noisy_nets"
    assert found["off"].change == "gems off"
    assert found[WIRED.name].statuses == "5 ok, 5 bankrupt"
    assert found[WIRED.name].line().endswith("in 10 pairs; runs: 5 ok, 5 bankrupt")


BELOW_THE_VERDICTS = "Trials by objective"


def test_no_number_of_the_terminal_comes_from_the_further_arms(extreme, bare):
    """Of what stands below the verdicts, which read the wired arms and share alpha with every dose."""
    shown = []
    for found in (extreme, bare):
        console = Console(width=100, record=True, file=StringIO())
        print_report(found, console)
        text = console.export_text()
        assert "g10_temporal" in text[: text.index(BELOW_THE_VERDICTS)]
        shown.append(text[text.index(BELOW_THE_VERDICTS) :].splitlines())
    wide, lines = shown
    assert any(line.startswith(f"arm {WIRED.name}") for line in wide)
    assert not any(line.startswith(f"arm {WIRED.name}") for line in lines)
    rest = iter(wide)
    assert all(line in rest for line in lines)  # every line of the base arm, in order


def test_doses_of_one_gem_are_pairs_of_their_own(full):
    pairs = full.pairs
    assert set(pairs["gem"]) == {"g10_temporal"}
    assert pairs["dose"].tolist() == [0.2] * 10 + [0.4] * 10
    runs = full.scores.set_index(["config", "arm", "seed"])["sharpe"]
    for row in pairs.itertuples():
        assert row.treatment == runs[row.config, f"wired-g10_temporal-{row.dose}", row.seed]
        assert row.control == runs[row.config, "base", row.seed]


def unpacked(specs_of_packs):
    """One run a trial, as `pack = "none"` plans it."""
    for spec in specs_of_packs:
        for member in spec.members:
            arms = tuple(arm for arm in spec.arms if arm.name == member.arm)
            key = f"{spec.key}-{member.arm}-s{member.seed}-f{member.fold}"
            yield spec.model_copy(update={"key": key, "arms": arms, "members": (member,)})


def test_arms_of_their_own_trials_are_compared_by_configuration_and_seed(tmp_path):
    packs = [with_arms(spec, WIRED, WITHOUT) for spec in specs(configs=2, seeds=2, folds=1)]
    trials = [spec.model_copy(update={"launch": launch}) for launch, spec in enumerate(unpacked(packs))]
    write_experiment(tmp_path, trials)
    found = analysis.load(tmp_path)
    assert found.purity.state == "pure"
    assert found.pairs["dose"].tolist() == [0.2] * 4
    assert found.pairs[["control", "treatment"]].notna().all(axis=None)
    base = found.trials["trial"].str.contains("-base-")
    assert found.trials.loc[base, "sharpe"].notna().all()
    assert found.trials.loc[~base, "sharpe"].isna().all()
    assert {source.n for source in analysis.variance_sources(found) if source.source == "all runs"} == {4}
    page = analysis.write_report(found, tmp_path / "page.html").read_text()
    assert "4 runs, mean" in page
