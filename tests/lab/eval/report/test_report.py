"""Whole reports."""

import json

import pytest

from docagent_rl.lab.eval.report.benchmark import ReportSettings, benchmark, pass_at
from docagent_rl.lab.eval.report.report import DATA, PAGE, make_report
from docagent_rl.lab.eval.report.runs import ScoredRun, report_on
from docagent_rl.lab.eval.scoring.roles import Author
from tests.lab.eval.report.scores import OVERALL, SCORE, over_three, scored, told

FEW = ReportSettings(draws=50)
LABEL, EXTRACT, TRUE_FALSE = "alden_judge", "mmlongbench_doc_extractor", "true_false_judge"
VRAG = {"recipe": "vrag_rl_qwen2_5_vl_7b"}


def trajectories(by="judge-1", gain=0, number=40, system="alden", **changes):
    for n in range(number):
        right = float((n * 7) % 10 < 4 + gain)
        each = scored(
            n, right, document=f"d{n % 10}", system=system,
            replies={EXTRACT: told("x", by), LABEL: told("Correct" if right else "Incorrect", by)},
            labels={"modality": ["Table" if n % 2 else "Chart"], "answerable": ["yes"]},
            groups=["single_page", "source/Table"], **changes,
        )  # fmt: skip
        each.values.update(correct=right, finished=1.0, turns=3.0, page_recall=0.5)
        yield each


def run(name="a", manifest=None, **changes):
    return ScoredRun(name, list(trajectories(**changes)), manifest or {})


def data_of(found):
    return json.loads(found.files[DATA])


def test_numbers_stand_beside_the_papers_of_the_recipe():
    searched = {
        "environment": {
            "retrievers": {"docagent.retriever": {"kind": "dense", "model": "vdr-2b-v1"}}
        }
    }
    one = run(manifest={"recipe": "alden_qwen2_5_vl_7b", "player": searched})
    found = make_report([one], FEW)
    rows, _ = rows_of([one], "MMLongBench-Doc: answers")
    assert rows["judged Correct"][-1] == "33.5 (vdr-2b); 36.7 (colqwen2-v1)"
    facts, _ = rows_of([one], "rest on")
    assert facts["retriever"][1:3] == ("vdr-2b-v1", "vdr-2b")
    assert facts["judge or extractor"][1:3] == ("judge-1", "gpt-4o")
    assert "40 of 1,082 questions" in found.files[PAGE]


def test_a_baseline_stands_beside_the_same_one_of_the_paper():
    (row,) = (
        make_report([ScoredRun("a", list(over_three(system="rag_text")), VRAG)], FEW).grids[0].rows
    )
    assert row[-1] == "20.9"
    both = [
        ScoredRun("a", list(over_three()), VRAG),
        ScoredRun("b", list(over_three(system="rag_image")), VRAG),
    ]
    (row,) = make_report(both, FEW).grids[0].rows
    assert row[-1] == "57.1 (colqwen2); 24.2 (Vanilla RAG, colqwen2)"


def test_a_model_of_another_stage_is_told_from_the_trained_one():
    one = run(manifest={"recipe": "mm_doc_r1_qwen3_8b"}, system="mm_doc_r1")
    rows, _ = rows_of([one], "MMLongBench-Doc: answers")
    assert rows["accuracy"][-1] == "49.7; 45.7 (untrained)"


def test_the_rule_judge_is_named_beside_every_number_it_stands_for():
    found = make_report(
        [run(by=Author.RULE.value), run("b", by=Author.RULE.value)], FEW, paired=True
    )
    begin = ("| accuracy", "| judged Correct", "| F1 |")
    lines = [line for line in found.files[PAGE].splitlines() if line.startswith(begin)]
    assert len(lines) >= 5
    assert all("†" in line for line in lines)
    numbers = data_of(found)["runs"][0]["benchmarks"]["mmlongbench"]["answers"]
    assert {n["measure"]: n["rule_judge"] for n in numbers} == {
        "acc": True,
        "f1": True,
        "correct": True,
    }
    assert all(
        each["rule_judge"] for each in data_of(found)["paired"]["mmlongbench"]["numbers"][:2]
    )
    assert "†" not in make_report([run()], FEW).files[PAGE]
    # one such trajectory among many is told
    each = list(trajectories())
    each[3].replies[EXTRACT]["by"] = Author.RULE.value
    number = benchmark("mmlongbench", each, FEW).number("acc")
    assert (number.by, number.ruled) == ((Author.RULE.value, "judge-1"), True)


def test_what_was_not_played_or_judged_is_counted():
    each = list(trajectories())
    each[0] = scored(0, 0, document="d0", status="masked", reason="infrastructure", system="alden")
    each[1].replies[LABEL] = told(None, "judge-1", failed=True)
    each[2] = scored(2, None, document="d2", scored=False, system="alden")
    found = benchmark("mmlongbench", each, FEW)
    assert (found.masked, found.judge_failures, found.unscored) == (
        {"infrastructure": 1},
        {LABEL: 1},
        1,
    )
    assert found.number("acc").interval.questions == 39
    assert found.verdicts[LABEL] == {"Correct": 15, "Incorrect": 22, "none": 1}
    page = make_report([ScoredRun("a", each, {})], FEW).files[PAGE]
    assert "1 infrastructure" in page
    assert "Correct, 22 Incorrect, 1 none" in page
    assert f"1 of {LABEL}".replace("_", "\\_") in page


def test_answers_that_a_paper_s_rule_keeps_from_its_judge_are_told_from_no_answer():
    unasked = {TRUE_FALSE: told(None, Author.NOBODY.value)}
    each = [
        scored(0, 0, system="vrag_rl", replies={TRUE_FALSE: told(True, "judge-1")}),
        scored(1, 0, system="vrag_rl", replies=unasked),
        scored(2, 0, system="vrag_rl", replies=unasked, pred=None),
        scored(3, 0, system="vrag_rl", replies={TRUE_FALSE: told(None, "judge-1", failed=True)}),
    ]
    found = benchmark("mmlongbench", each, FEW)
    assert found.verdicts[TRUE_FALSE] == {"True": 1, "none": 2, "not asked": 1}
    assert "1 True, 2 none, 1 not asked" in make_report([ScoredRun("a", each, {})], FEW).files[PAGE]


def test_breakdowns_hold_the_lines_and_no_line_twice():
    found = benchmark("mmlongbench", list(trajectories()), FEW)
    assert {number.row for number in found.breakdowns} == {
        ("answerable", "yes"), ("modality", "Chart"), ("modality", "Table"),
        ("of the benchmark", "single_page"),
    }  # fmt: skip
    assert {number.measure.name for number in found.breakdowns} == {"acc", "correct"}


@pytest.mark.parametrize(
    ("k", "value"), [(1, (2 / 4 + 0 + 3 / 4 + 1) / 4), (2, (1 - 1 / 6 + 0 + 1) / 3), (5, None)]
)
def test_pass_at_k(k, value):
    right = {0: [1, 1, 0, 0], 1: [0, 0, 0, 0.4], 2: [1, 1, 0.5, 0.4], 3: [1]}
    each = [scored(q, v, number=s) for q, values in right.items() for s, v in enumerate(values)]
    assert pass_at(each, SCORE, k, FEW).value == (
        pytest.approx(value) if value is not None else None
    )


def test_two_runs_are_compared_and_reported_on_alike_every_time():
    other = ScoredRun(
        "b", [*trajectories(gain=2), scored(0, 1, dataset="own", values={"rule": 1.0})], {}
    )
    one, again = (make_report([run(), other], FEW, paired=True) for _ in range(2))
    assert one == again
    data = data_of(one)
    assert [list(each["benchmarks"]) for each in data["runs"]] == [
        ["mmlongbench"],
        ["mmlongbench", "own"],
    ]
    paired = data["paired"]["mmlongbench"]
    assert (paired["won"], paired["lost"], paired["only_in_first"]) == (8, 0, [])
    assert paired["numbers"][0]["gain"]["value"] == pytest.approx(0.2)
    assert data["paired"]["own"]["only_in_second"] == ["q0"]


def test_a_run_over_all_benchmarks_of_a_paper_has_its_overall_number():
    each = list(over_three())

    def overall(trajectories):
        return report_on(ScoredRun("a", trajectories, VRAG), FEW).overall

    (whole,) = overall(each).values()
    assert (whole.interval.value, whole.by) == (0.25, ("judge-1",))
    # one benchmark lacks; the paper has no such baseline
    assert overall(each[:8]) == overall(list(over_three(system="whole_document"))) == {}
    runs = [ScoredRun("a", each, VRAG), ScoredRun("b", each[:8], VRAG)]
    found = make_report(runs, FEW)
    (row,) = found.grids[0].rows
    assert row[:3] == (OVERALL, "judge-1", "12 / 0")
    assert row[3].startswith("25.0 [")
    assert row[4:] == ("-", "57.1")
    assert f"| {OVERALL} |" in found.files[PAGE]
    assert data_of(found)["runs"][0]["overall"][OVERALL]["by"] == ["judge-1"]
    ruled = make_report([ScoredRun("a", list(over_three(Author.RULE.value)), VRAG)], FEW)
    assert ruled.grids[0].rows[0][3].startswith("25.0† [")
    assert not [grid for grid in make_report(runs[1:], FEW).grids if "All benchmarks" in grid.title]


def rows_of(runs, title, **settings):
    """Return the rows of a table by the texts with which they begin, and its notes."""
    grid = next(each for each in make_report(runs, FEW, **settings).grids if title in each.title)
    return {row[0] if grid.head[0] != "by" else row[:2]: row for row in grid.rows}, " ".join(
        grid.notes
    )


def test_two_judges_of_two_runs_are_told():
    _, notes = rows_of([run(), run("b", by="judge-2")], "b (second) against a (first)", paired=True)
    assert "a was judged by judge-1, b by judge-2" in notes


def test_a_run_that_is_not_whole_says_so():
    manifest = {"questions": {"count": 50, "sha256": "x"}, "trajectories": 2}
    whole = {"questions": {"count": 40}, "trajectories": 1}
    runs = [
        run(manifest=manifest),
        run("b", manifest={"trajectories": 2}),
        run("c", manifest=whole),
    ]
    found = make_report(runs, FEW)
    assert found.files[PAGE].count("40 of 100") == 1
    assert "40 of 40" not in found.files[PAGE]
    assert [each["expected_trajectories"] for each in data_of(found)["runs"]] == [100, None, 40]


def test_a_benchmark_whose_answers_are_hidden_has_navigation_alone():
    each = [
        scored(n, None, scored=False, values={"page_recall": 1.0, "finished": 1.0})
        for n in range(4)
    ]
    found = make_report([ScoredRun("a", each, {}), ScoredRun("b", each, {})], FEW, paired=True)
    data = data_of(found)["runs"][0]["benchmarks"]["mmlongbench"]
    assert data["answers"] == []
    assert {number["measure"] for number in data["use"]} == {"page_recall", "finished"}
    for text in ("4 of 1,082 questions", "the answer to 4 questions is unknown"):
        assert found.files[PAGE].count(text) == 2
