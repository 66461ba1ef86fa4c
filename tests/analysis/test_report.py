import html
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from synthetic_experiment import TIMELINE, plan_of, specs, write_experiment, write_trial

import analysis
from analysis.matrix import about_gates, norm_text
from analysis.page import Markup, element, safe
from analysis.text import duration, mean_and_sd, percent, plain, setting, signed, signed_interval
from trainer.record import write_plan, write_timeline

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "made-up"
    write_experiment(folder, specs(configs=5))
    return analysis.load(folder)


@pytest.fixture(scope="module")
def page(finished):
    return analysis.write_report(finished).read_text()


def printed(experiment, width):
    console = Console(width=width, force_terminal=False, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    analysis.print_report(experiment, console)
    return console.export_text()


def test_the_table_shows_verdicts_spread_and_debug_commands(finished):
    text = printed(finished, 100)
    assert "DELETE (zero)" in text
    assert "candidate: run the" in text
    assert "smoke, not evidence" in text
    for key in finished.trials["trial"]:
        assert f"gemsweep debug {finished.path} --trial {key}" in text
    assert "[lo, hi]" in text
    assert "best Sharpe variance" in text
    assert "HEALTH [loss/c51=" in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_fits_its_terminal(finished, width):
    lines = [line for line in printed(finished, width).splitlines() if "gemsweep debug" not in line]
    assert max(map(len, lines)) <= min(width, 100)


QUESTIONS = ["verdicts", "trust", "effect", "units", "looks", "signal", "calm", "more", "headline"]


def test_the_nine_questions_stand_in_order_and_the_records_after_them(page):
    sections = re.findall(r'<section id="(\w+)"><h2>(?:<span class="no">(\d)</span>)?', page)
    assert [name for name, number in sections if number] == QUESTIONS
    assert [int(number) for _, number in sections if number] == list(range(1, 10))
    assert [name for name, _ in sections][9:] == ["arms", "health", "gradients", "trials", "words"]
    assert set(re.findall(r'<a href="#(\w+)"', page)) == {name for name, _ in sections}


def test_the_page_opens_with_what_was_found_and_whether_it_can_be_trusted(page):
    head = page[: page.index("<nav")]
    assert "2 MORE TRIALS" in head
    assert "1 DELETE" in head
    assert "Only the signal was judged" in head
    for words in ("0 looks at a Sharpe difference", "opened 0 times", "pending: cuda", "PURE", "smoke, not evidence"):
        assert words in head


def test_the_words_of_the_page(page):
    for word in ("DELETE", "MORE TRIALS", "PURE", "SELECTED", "smoke, not evidence"):
        assert word in page


def test_the_page_is_self_contained_small_and_has_text_for_every_figure(page, finished):
    assert len(page) < 1_000_000
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert not re.findall(r"url\((?!#)", page)
    figures = re.findall(r"<svg[^>]*>", page)
    assert len(figures) >= 9
    assert all(re.search(r'aria-label="[^"]{20,}"', figure) for figure in figures)
    for key in finished.trials["trial"]:
        assert f"--trial {key}" in page


def test_equal_data_give_equal_bytes(page, finished, tmp_path):
    again = analysis.write_report(analysis.load(finished.path), tmp_path / "again.html")
    assert again.read_text() == page


def test_ids_that_figures_refer_to_are_unique(page):
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_names_are_shown_and_never_executed(tmp_path):
    hostile = "<script>alert(1)</script>"
    trials = specs(configs=1, seeds=1, off=False, gems={hostile: 0.2})
    write_plan(tmp_path, plan_of(trials, name=hostile, label="<b>bold</b>"))
    write_timeline(tmp_path, TIMELINE)
    write_trial(tmp_path, trials[0], {hostile: 0.2}, stop_after=2, fail="pack")
    experiment = analysis.load(tmp_path)
    assert experiment.gems == [hostile]
    text = analysis.write_report(experiment).read_text()
    assert "<script" not in text
    assert "<b>bold" not in text
    assert html.escape(hostile) in text
    assert hostile in printed(experiment, 100)


def test_an_experiment_without_results_still_gives_a_page_and_a_table(tmp_path):
    write_plan(tmp_path, plan_of(specs(configs=2)))
    experiment = analysis.load(tmp_path)
    text = analysis.write_report(experiment).read_text()
    assert "No gem has been measured yet" in text
    assert "Damaged: timeline.parquet" in text
    assert "no run has been scored yet" in printed(experiment, 80)


def test_damage_is_named_in_the_table(tmp_path):
    trials = write_experiment(tmp_path, specs(configs=1, seeds=1, off=False))
    part = next((tmp_path / "trials" / trials[0].key / "epochs").glob("00002-*.parquet"))
    part.write_bytes(b"PAR1")
    assert part.name in printed(analysis.load(tmp_path), 100).replace("\n", "")


def test_rules_changed_after_the_plan_are_called_out(tmp_path):
    fixed = {"rules": analysis.VerdictRules().to_dict(), "rules_hash": analysis.VerdictRules().hash}
    write_plan(tmp_path, plan_of(specs(configs=1), verdict=fixed))
    experiment = analysis.load(tmp_path)
    assert "CHANGED" not in analysis.write_report(experiment).read_text()
    other = analysis.VerdictRules(alpha=0.2)
    assert "CHANGED after the plan" in analysis.write_report(experiment, rules=other).read_text()


def test_the_dash_is_for_what_cannot_be_and_nothing_else():
    index = pd.MultiIndex.from_tuples([("c51", "trunk"), ("c51", "predictive"), ("pred", "trunk")])
    cells = pd.DataFrame({"norm": [0.0, np.nan, 0.25], "structural": [False, True, False]}, index=index)
    shown = [norm_text(cells, *key) for key in [*index, ("pred", "value")]]
    assert shown == ["0 exact", "-", "2.50e-01", "n/a"]
    assert [norm_text(cells, *key, "iqn_weight") for key in index] == ["gated", "-", "2.50e-01"]
    for absent in (percent, signed, plain, duration):
        assert absent(float("nan")) == "n/a"
    assert mean_and_sd(float("nan"), 1.0) == signed_interval(float("nan"), 1.0) == "n/a"


def test_a_component_closed_at_the_end_is_told_from_one_that_was_shut_throughout():
    index = pd.MultiIndex.from_product([["cql_sx", "distill", "c51"], ["trunk"]])
    cells = pd.DataFrame({"norm": [3e-5, 0.0, 0.5], "structural": False}, index=index)
    text = about_gates(cells, {"cql_sx": "cql_coefficient", "distill": "distill_alpha", "c51": ""}, ["trunk"])
    shut, former = text.split(" Closed at the last epoch")
    assert "(distill by distill_alpha)" in shut
    assert former.endswith("of the epochs before: cql_sx by cql_coefficient.")
    assert about_gates(cells, {"c51": ""}, ["trunk"]) == ""


def recorded(folder, change):
    """One finished trial whose columns of an epoch are those that `change(table, epoch)` gives."""
    trials = specs(configs=1, seeds=2, off=False)
    write_plan(folder, plan_of(trials))
    write_timeline(folder, TIMELINE)
    write_trial(folder, trials[0], change=change)
    return analysis.load(folder)


def test_an_alarm_stands_in_the_table_and_at_the_head_of_the_page(tmp_path):
    def alarmed(table, epoch):
        return table | ({"watchdog": ["INERT distill", "", "", ""]} if epoch > 4 else {})

    experiment = recorded(tmp_path, alarmed)
    line = f"watchdog: INERT distill in 1 of 4 runs of {experiment.specs[0].config_key}, arm base, first at epoch 5"
    assert line in printed(experiment, 100)
    page = analysis.write_report(experiment).read_text()
    assert page.index('class="note alarm"') < page.index(line) < page.index('<section id="verdicts"')


def test_a_closed_gate_and_a_narrow_support_are_named_on_the_page(tmp_path):
    def closed(table, epoch):
        count = len(table["edge_mass"])
        gated = {"grad/iqn/trunk": np.full(count, 0.0 if epoch else np.nan), "signal/iqn_readiness": np.zeros(count)}
        return table | gated | {"edge_mass": np.full(count, 0.2)}

    page = analysis.write_report(recorded(tmp_path, closed)).read_text()
    assert ">gated</td>" in page
    assert "iqn by iqn_readiness" in page
    assert "above 0.05 in 4 of 4 runs: raise trainer.network.v_max" in page


def test_records_without_the_later_columns_are_read_and_say_so(tmp_path):
    later = ("watchdog", "dormant/", "entropy/", "act/", "edge_mass", "signal/", "counter/", "coefficient/")
    experiment = recorded(tmp_path, lambda table, _: {n: v for n, v in table.items() if not n.startswith(later)})
    assert "Signs of collapse were not recorded" in analysis.write_report(experiment).read_text()
    assert "watchdog" not in printed(experiment, 100)


def test_markup_is_escaped_once():
    assert safe("a<b") == "a&lt;b"
    assert safe(Markup("<b>")) == "<b>"
    assert element("td", "x", class_='"n') == '<td class="&quot;n">x</td>'


def test_numbers_as_text():
    assert [percent(share).replace("\u00a0", " ") for share in (0.2, 0.0123, 1e-4, 1e-6, 0.0, 83.53)] == [
        "20.0 %", "1.23 %", "0.0100 %", "1.0e-04 %", "0 %", "83.5 ×",
    ]  # fmt: skip
    assert percent(float("nan")) == "n/a"
    assert signed(-0.5) == "-0.50"
    assert signed_interval(-1.0, 2.0) == "[-1.00, +2.00]"
    assert [duration(seconds) for seconds in (42.0, 210.0, 7560.0)] == ["42 s", "3.5 min", "2.1 h"]
    assert setting((64, 64)) == "64-64"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_overflows_in_a_browser(page, tmp_path, width):
    script = "document.title = document.getElementById('f').contentDocument.documentElement.scrollWidth"
    frame = f'<iframe id="f" width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>'
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8>{frame}<script>onload = () => {{ {script} }}</script>")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    command = [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{outer}"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert int(re.search(r"<title>(\d+)", found)[1]) <= width
