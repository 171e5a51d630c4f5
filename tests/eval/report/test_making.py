"""Whole reports."""

from __future__ import annotations

import json
import re

import pytest

from docagent_rl.eval.report.bootstrap import Interval
from docagent_rl.eval.report.build import (
    ReportSettings,
    ScoredRun,
    answer_measures,
    benchmark,
    pass_at,
    report_on,
)
from docagent_rl.eval.report.making import make_report
from docagent_rl.eval.report.papers import against_papers
from docagent_rl.eval.scoring.experts import Author
from docagent_rl.eval.scoring.protocols import PROTOCOLS
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.eval.report.scores import SCORE, scored

FEW = ReportSettings(draws=50)
LABEL, EXTRACT = "alden_judge", "mmlongbench_doc_extractor"


def told(value, by, failed=False):
    return {"value": value, "by": by, "failed": failed}


def sessions(by="judge-1", gain=0, number=40, **changes):
    for n in range(number):
        right = float((n * 7) % 10 < 4 + gain)
        each = scored(
            n, right, document=f"d{n % 10}", system="alden",
            experts={EXTRACT: told("x", by), LABEL: told("Correct" if right else "Incorrect", by)},
            second={LABEL: told("Correct" if n % 5 else "Incorrect", Author.RULE.value)},
            labels={"modality": ["Table" if n % 2 else "Chart"], "answerable": ["yes"]},
            groups=["single_page", "source/Table"], **changes,
        )  # fmt: skip
        each.values.update(correct=right, finished=1.0, turns=3.0, cost=0.25, page_recall=0.5)
        yield each


def run(name="a", manifest=None, **changes):
    return ScoredRun(name, list(sessions(**changes)), manifest or {})


def test_numbers_stand_beside_the_papers_of_the_recipe():
    one = run(manifest={"recipe": "alden_qwen2_5_vl_7b", "retriever": "vdr-2b-v1"})
    report = report_on(one, FEW)
    visual, other = against_papers(report, one.sessions, FEW)
    (beside,) = visual.numbers
    assert (beside.target.value, beside.ours.value) == (33.5, 0.4)
    assert beside.gap == pytest.approx(6.5)
    assert beside.inside is (beside.ours.low <= 0.335 <= beside.ours.high)
    assert [fact.verdict.value for fact in visual.facts if fact.name == "retriever"] == ["same"]
    assert [fact.verdict.value for fact in other.facts if fact.name == "retriever"] == ["different"]
    page = make_report([one], FEW).page
    assert "33.5 (vdr-2b); 36.7 (colqwen2-v1)" in page
    assert re.search("judge-1.*gpt-4o", page)


def test_the_rule_judge_is_named_beside_every_number_it_stands_for():
    found = make_report([run(by=Author.RULE.value), run("b", by=Author.RULE.value)], FEW, paired=True)
    page, data = found.page, json.loads(found.data)
    lines = [
        line for line in page.splitlines() if line.startswith(("| accuracy", "| judged Correct", "| F1 |"))
    ]
    assert len(lines) >= 5
    assert all("†" in line for line in lines)
    assert "†" in found.picture
    numbers = data["runs"][0]["benchmarks"]["mmlongbench"]["answers"]
    assert {n["measure"]: n["rule_judge"] for n in numbers} == {"acc": True, "f1": True, "correct": True}
    assert all(each["rule_judge"] for each in data["paired"]["mmlongbench"]["numbers"][:2])
    assert "†" not in make_report([run()], FEW).page


def test_one_ruled_session_among_many_is_told():
    each = list(sessions())
    each[3].experts[EXTRACT]["by"] = Author.RULE.value
    found = benchmark("mmlongbench", each, FEW)
    assert found.number("acc").by == (Author.RULE.value, "judge-1")
    assert found.number("acc").ruled


def test_what_was_not_played_or_judged_is_counted():
    each = list(sessions())
    each[0] = scored(0, 0, document="d0", status="masked", reason="infrastructure", system="alden")
    each[1].experts[LABEL] = told(None, "judge-1", failed=True)
    each[2] = scored(2, None, document="d2", scored=False, system="alden")
    found = benchmark("mmlongbench", each, FEW)
    assert (found.masked, found.failures, found.unscored) == ({"infrastructure": 1}, {LABEL: 1}, 1)
    assert found.number("acc").interval.questions == 39
    judges, second, agreed = found.agreements[LABEL]
    assert (judges, second, agreed.count, agreed.left_out) == ("judge-1", Author.RULE.value, 37, 1)
    assert found.total_cost == pytest.approx(0.25 * 38)
    assert sum(found.verdicts[LABEL].values()) == 38
    assert found.verdicts[LABEL]["none"] == 1
    page = make_report([ScoredRun("a", each, {})], FEW).page
    assert "1 infrastructure" in page
    assert "Correct, 22 Incorrect, 1 none" in page
    assert f"1 of {LABEL}".replace("_", "\\_") in page


def test_breakdowns_hold_the_lines_and_no_line_twice():
    found = benchmark("mmlongbench", list(sessions()), FEW)
    assert {number.row for number in found.parts} == {
        ("answerable", "yes"), ("modality", "Chart"), ("modality", "Table"),
        ("of the benchmark", "single_page"),
    }  # fmt: skip
    assert {number.measure.name for number in found.parts} == {"acc", "correct"}


@pytest.mark.parametrize("dataset", PROTOCOLS)
def test_no_two_numbers_of_a_benchmark_have_one_title(dataset):
    played = [scored(0, 1, dataset=dataset, system=system) for system in ("alden", "vrag_rl")]
    titles = [measure.title for measure in answer_measures(dataset, played)]
    assert len(set(titles)) == len(titles)


def test_an_f1_is_no_mean_of_parts():
    each = [
        scored(0, 1),
        scored(1, 0, pred=NOT_ANSWERABLE),
        scored(2, 1, gold=NOT_ANSWERABLE, pred=NOT_ANSWERABLE),
    ]
    found = benchmark("mmlongbench", each, FEW)
    assert found.number("f1").interval.value == pytest.approx(2 / 3)  # recall 1/2, precision 1
    assert found.number("acc").interval.value == pytest.approx(2 / 3)


@pytest.mark.parametrize(("k", "value"), [(1, (2 / 4 + 0 + 1) / 3), (2, (1 - 1 / 6 + 0 + 1) / 3), (5, None)])
def test_pass_at_k(k, value):
    right = {0: [1, 1, 0, 0], 1: [0, 0, 0, 0.4], 2: [1, 1, 1, 0.5], 3: [1]}
    each = [scored(q, v, session=s) for q, values in right.items() for s, v in enumerate(values)]
    if k == 1:
        value = (value * 3 + 1) / 4  # the question with a single session counts too
    found = pass_at(each, SCORE, k, FEW)
    assert found.value == (pytest.approx(value) if value is not None else None)


def test_a_report_is_the_same_every_time():
    runs = [run(), run("b", gain=2)]
    one, other = (make_report(runs, FEW, paired=True) for _ in range(2))
    assert one == other
    data = json.loads(one.data)
    assert data["paired"]["mmlongbench"]["won"] == 8
    assert data["paired"]["mmlongbench"]["lost"] == 0
    assert data["paired"]["mmlongbench"]["numbers"][0]["gain"]["value"] == pytest.approx(0.2)


def test_runs_of_different_benchmarks_have_tables_of_their_own():
    other = ScoredRun("b", [scored(0, 1, dataset="own", values={"rule": 1.0})], {})
    found = make_report([run(), other], FEW, paired=True)
    data = json.loads(found.data)
    assert [list(each["benchmarks"]) for each in data["runs"]] == [["mmlongbench"], ["own"]]
    assert data["paired"]["own"]["only_in_second"] == ["q0"]
    assert len(data["paired"]["mmlongbench"]["only_in_first"]) == 40


def over_three(by="judge-1", system="vrag_rl"):
    """A quarter of the questions of each benchmark of VRAG-RL's table is judged right."""
    for dataset in ("slidevqa", "vidoseek", "mmlongbench"):
        for n in range(4):
            values = {"judged": float(n == 0), "score": 0.0, "qa_f1": 0.0, "passing": 0.0}
            one = scored(f"{dataset}{n}", 0, dataset=dataset, system=system, values=values)
            one.experts["true_false_judge"] = told(n == 0, by if n else Author.NOBODY.value)
            yield one


VRAG = {"recipe": "vrag_rl_qwen2_5_vl_7b"}
OVERALL = "judged right, over MMLongBench-Doc, SlideVQA and ViDoSeek"


def test_a_run_over_all_benchmarks_of_a_paper_has_its_overall_number():
    each = list(over_three())
    report = report_on(ScoredRun("a", each, VRAG), FEW)
    whole = [against for against in against_papers(report, each, FEW) if against.dataset == "all"]
    assert [(b.target.value, b.ours.value) for a in whole for b in a.numbers] == [(57.1, 0.25)]
    assert isinstance(whole[0].numbers[0].ours, Interval)
    assert whole[0].judges == ("judge-1",)
    some = ScoredRun("a", each[:8], VRAG)
    assert "all" not in {a.dataset for a in against_papers(report_on(some, FEW), some.sessions, FEW)}
    # a baseline with the recipe's retriever is not what the paper reports
    other = list(over_three(system="rag_text"))
    assert against_papers(report_on(ScoredRun("b", other, VRAG), FEW), other, FEW) == []


def test_the_overall_number_stands_in_table_page_and_picture():
    runs = [ScoredRun("a", list(over_three()), VRAG), ScoredRun("b", list(over_three())[:8], VRAG)]
    found = make_report(runs, FEW)
    grid = found.grids[0]
    (row,) = grid.rows
    assert row[:2] == (OVERALL, "judge-1")
    assert row[2].startswith("25.0 [")
    assert row[3:] == ("-", "57.1")
    assert any(note.startswith("a and VRAG-RL") for note in grid.notes)
    assert f"| {OVERALL} |" in found.page
    assert OVERALL in found.picture
    papers = json.loads(found.data)["runs"][0]["papers"]
    assert [each["by"] for each in papers if each["dataset"] == "all"] == [["judge-1"]]
    ruled = make_report([ScoredRun("a", list(over_three(Author.RULE.value)), VRAG)], FEW)
    assert ruled.grids[0].rows[0][2].startswith("25.0† [")
    assert f"{OVERALL}†" in ruled.picture
    assert not [grid for grid in make_report(runs[1:], FEW).grids if "All benchmarks" in grid.title]


def test_a_run_that_is_not_whole_says_so():
    manifest = {"questions": {"count": 50, "sha256": "x"}, "sessions": 2}
    found = make_report([run(manifest=manifest), run("b", manifest={"sessions": 2})], FEW)
    assert found.page.count("40 of 100") == 1
    data = json.loads(found.data)
    assert [each["expected_sessions"] for each in data["runs"]] == [100, None]
    whole = {"questions": {"count": 40}, "sessions": 1}
    assert "40 of 40" not in make_report([run(manifest=whole)], FEW).page


def test_the_systems_own_numbers_are_means_over_the_sessions_played():
    each = [scored(n, 1, environment={"crops": float(n)}) for n in range(3)]
    each.append(scored(3, 0, environment={"crops": 9.0}, status="masked", reason="sample"))
    found = benchmark("mmlongbench", each, FEW)
    assert (found.environment["crops"].value, found.environment["crops"].count) == (1.0, 3)
    assert "| crops | 1 |" in make_report([ScoredRun("a", each, {})], FEW).page


def test_a_benchmark_whose_answers_are_hidden_has_navigation_alone():
    each = [scored(n, None, scored=False, values={"page_recall": 1.0, "finished": 1.0}) for n in range(4)]
    found = make_report([ScoredRun("a", each, {}), ScoredRun("b", each, {})], FEW, paired=True)
    data = json.loads(found.data)["runs"][0]["benchmarks"]["mmlongbench"]
    assert data["answers"] == []
    assert {number["measure"] for number in data["use"]} == {"page_recall", "finished"}
    assert found.page.count("4 questions") == 4


def test_a_description_that_no_json_can_hold_is_told_as_text():
    manifest = {"player": {"temperature": float("nan")}, "env": {"display": {"min_pixels": float("inf")}}}
    assert json.loads(make_report([run(manifest=manifest)], FEW).data)["runs"][0]["facts"]


def test_nothing_at_all_makes_a_report():
    found = make_report([ScoredRun("a", [], {})], FEW)
    assert found.grids == ()
    assert json.loads(found.data)["runs"][0]["benchmarks"] == {}


@pytest.mark.slow
def test_ten_thousand_sessions_are_reported_on():
    runs = [
        ScoredRun(name, list(sessions(gain=gain, number=10_000)), {}) for name, gain in (("a", 0), ("b", 1))
    ]
    for each in runs:
        for number, one in enumerate(each.sessions):
            object.__setattr__(one, "document", f"d{number % 1500}")
    found = make_report(runs, ReportSettings(), paired=True)
    assert json.loads(found.data)["paired"]["mmlongbench"]["won"] == 1000
