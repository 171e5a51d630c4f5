"""Scores of trajectories by benchmark, golds as predictions, and numbers over whole benchmarks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.judges import AnswerJudge, Extractor
from docagent_rl.lab.eval.scoring import official
from docagent_rl.lab.eval.scoring.played import read_trajectory
from docagent_rl.lab.eval.scoring.protocols import PROTOCOLS, protocol_of
from docagent_rl.lab.eval.scoring.roles import JudgedAnswer, JudgeReply
from docagent_rl.lab.eval.scoring.scored import Form
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.rewards.text import NOT_ANSWERABLE as NA
from tests.lab.eval.metrics import slow
from tests.lab.eval.scoring.trajectories import answered, play_of, question, turn


def judged_answer(sample, answer, replies=None, **changes) -> JudgedAnswer:
    trajectory = play_of(sample) if answer is None else answered(sample, answer, **changes)
    return JudgedAnswer(sample, read_trajectory(trajectory), replies or {})


def extracted(text):
    return {
        Extractor.MMLONGBENCH_DOC: JudgeReply(
            f"Extracted answer: {text}\nAnswer format: String", "m"
        )
    }


def test_every_imported_benchmark_has_a_protocol():
    datasets = {get_importer(each).dataset for each in Benchmark} - {""}
    assert len(datasets) == len(Benchmark) - 1  # UDA has several
    assert datasets <= set(PROTOCOLS)
    assert {"uda_paper_tab", "uda_paper_text", "uda_feta"} <= set(PROTOCOLS)
    assert protocol_of("mine").headline.name == "judged"


def test_mmlongbench_goes_by_the_native_answer_and_pages():
    sample = question(
        dataset="mmlongbench",
        answer_format="List",
        answers=("teal", "ochre"),
        extra={
            "gold": "['teal', 'ochre']",
            "native_evidence_pages": "[3, 1418]",
            "doc_type": "Guidebook",
        },
    )
    found = official.mmlongbench(
        judged_answer(sample, "Teal and ochre.", extracted("['Ochre', 'Teal']"))
    )
    assert found.values == {"score": 1.0, "gold_answerable": 1.0, "answered": 1.0}
    assert found.groups == ("cross_page", "source/Table", "type/Guidebook")


def test_an_unanswerable_question_without_an_answer_is_wrong():
    sample = question(
        dataset="mmlongbench", answers=(), answerable=False, extra={"gold": "Not answerable"}
    )
    found = official.mmlongbench(judged_answer(sample, None))
    assert found.values == {"score": 0.0, "gold_answerable": 0.0, "answered": 1.0}
    right = official.mmlongbench(
        judged_answer(sample, "It is not there.", extracted("Not answerable"))
    )
    assert right.values == {"score": 1.0, "gold_answerable": 0.0, "answered": 0.0}


@pytest.mark.parametrize(
    ("gold", "reply", "counted"),
    [
        ("41", '{"equivalent": true, "abstained": false}', (1.0, 1.0, 1.0)),
        ("41", '{"equivalent": false, "abstained": true}', (0.0, 1.0, 0.0)),
        ("Not answerable or 0 or none", '{"equivalent": true, "abstained": true}', (1.0, 0.0, 0.0)),
        ("Not answerable", '{"equivalent": false, "abstained": false}', (0.0, 0.0, 1.0)),
        # as of a judge that failed
        ("41", None, (0.0, 1.0, 1.0)),
    ],
)
def test_the_second_mmlongbench_counts_what_its_judge_says(gold, reply, counted):
    sample = question(
        dataset="mmlongbench_v2", extra={"gold": gold, "native_evidence_pages": "[3]"}
    )
    replies = {AnswerJudge.MMLONGBENCH_DOC_V2: JudgeReply(reply, "m")}
    found = official.mmlongbench_v2(judged_answer(sample, "Forty-one.", replies))
    assert tuple(found.values.values()) == counted
    assert tuple(found.values) == ("score", "gold_answerable", "answered")
    lines = {"single_page", "source/Table"} | ({"unanswerable"} if gold.startswith(NA) else set())
    assert set(found.groups) == lines
    assert official.mmlongbench_v2(judged_answer(sample, None)).values["answered"] == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_the_second_mmlongbench_by_its_definition(seed):
    """The expected numbers are accuracy and F1 of `eval/metrics.py`, computed slowly."""
    draw = np.random.default_rng(seed)
    rows = [
        dict(zip(("right", "asked", "gave"), draw.integers(0, 2, 3).tolist(), strict=True))
        for _ in range(20)
    ]
    acc, f1 = PROTOCOLS["mmlongbench_v2"].measures
    values = [
        {
            "score": float(row["right"]),
            "gold_answerable": float(row["asked"]),
            "answered": float(row["gave"]),
        }
        for row in rows
    ]
    hits = sum(row["right"] for row in rows if row["asked"])
    recall, precision = (
        hits / sum(row["asked"] for row in rows),
        hits / sum(row["gave"] for row in rows),
    )
    wanted = 2 * recall * precision / (recall + precision)
    sums = {
        measure: np.sum([measure.sums(each) for each in values], axis=0) for measure in (acc, f1)
    }
    assert acc.combine(sums[acc], 20) == pytest.approx(sum(row["right"] for row in rows) / 20)
    assert f1.combine(sums[f1], 20) == pytest.approx(wanted)


VARIANTS = [["red", "blue"], ["scarlet"]]


@pytest.mark.parametrize(
    ("answer", "grade", "values"),
    [
        ("blue; RED", "incorrect", {"semantic": 1.0, "anls_star": 1.0, "accuracy": 1.0}),
        ("blue", "partial", {"semantic": 0.5, "anls_star": 0.5, "accuracy": 1.0}),
        (
            "The colours are red and blue.",
            "correct",
            {"semantic": 1.0, "anls_star": 0.0, "accuracy": 0.0},
        ),
    ],
)
def test_madqa_goes_by_its_variants_and_a_grade(answer, grade, values):
    sample = question(
        dataset="madqa", answers=("red", "blue"), answer_format="list", extra={"gold": VARIANTS}
    )
    replies = {AnswerJudge.MADQA: JudgeReply(f'{{"judgment": "{grade}"}}', "m")}
    found = official.madqa_score(judged_answer(sample, answer, replies))
    assert (found.values, found.groups) == (values, ("single",))


def test_madqa_without_an_answer_is_wrong():
    sample = question(dataset="madqa", extra={"gold": [["red"]]})
    assert set(official.madqa_score(judged_answer(sample, None)).values.values()) == {0.0}


def test_madqa_scores_citations_where_a_system_names_pages():
    pages = ["d0#3", "d1#1", "d1#2"]
    sample = question(dataset="madqa", extra={"gold": [["x"]], "page_ids": pages})
    selected = turn("select", effect={"kind": "selection", "page": "d1#2"})
    own = play_of(sample, selected, turn("answer", "x"), system="unidoc_rl")
    found = official.madqa_score(JudgedAnswer(sample, read_trajectory(own)))
    # one of three pages, one of two documents
    assert found.values["cited_page_f1"] == pytest.approx(2 / 4)
    assert found.values["cited_document_f1"] == pytest.approx(2 / 3)
    assert found.groups == ("cross_doc",)


@pytest.mark.parametrize(
    ("mean", "adjusted"), [(0.49, 0.5), (0.98, 1.0), (1.0, 1.0), (0.0, 0.0), (math.nan, math.nan)]
)
def test_madqa_adjusts_for_its_judge(mean, adjusted):
    measure = next(each for each in PROTOCOLS["madqa"].measures if each.form is Form.ADJUSTED)
    sums = np.array([mean, 1.0]) if not math.isnan(mean) else np.array([0.0, 0.0])
    assert measure.combine(sums, 1) == pytest.approx(adjusted, nan_ok=True)


def test_vidore_ranks_the_pages_collected_by_their_grades():
    sample = question(dataset="vidore_v3", extra={"relevance": {"d0#3": 1, "d0#9": 2}})
    found = official.vidore_v3(judged_answer(sample, "Lake Ontario", pages=(9, 3)))
    assert found.values == {"ndcg@10": pytest.approx(1.0)}
    late = official.vidore_v3(judged_answer(sample, "Lake Ontario", pages=(1, 3)))
    assert late.values["ndcg@10"] == pytest.approx((1 / math.log2(3)) / (2 + 1 / math.log2(3)))
    # without grades all evidence is alike
    assert official.vidore_v3(judged_answer(question(), "x", pages=(3,))).values == {"ndcg@10": 1.0}


def test_longdocurl_keeps_types_and_both_scores():
    sample = question(
        dataset="longdocurl",
        answer_format="List",
        extra={"gold": ["1", "2"], "task_tag": "Locating", "question_type": "summary2tab"},
    )
    reply = "<concise_answer>1, 2</concise_answer><answer_format>List</answer_format>"
    found = official.longdocurl(
        judged_answer(sample, "1 and 2", {Extractor.LONGDOCURL: JudgeReply(reply, "m")})
    )
    assert (found.values["score"], found.values["inline_score"]) == (1.0, 0.0)
    assert found.groups == ("Locating, Cross_Table", "single_page", "source/Table", "task/Locating")


def test_mp_docvqa_takes_the_page_that_the_answer_stands_on():
    sample = question(dataset="mpdocvqa", answers=("Ridge Road",), evidence_pages=(3,))
    for answer, pages, value in (("ridge road", (2, 3), 1.0), ("none", (3, 2), 0.0)):
        found = official.mp_docvqa(judged_answer(sample, answer, pages=pages)).values
        assert found == {"anls": value, "accuracy": value, "appa": value}


@pytest.mark.parametrize(
    ("answers", "kind", "answer", "score"),
    [
        (("red", "green", "blue"), "list/extractive", "blue; red", 2 / 3),
        (("red", "green"), "list/abstractive", "green\nred\n", 1.0),
        ((), "not-answerable", "This cannot be answered from the document.", 1.0),
        ((), "not-answerable", None, 0.0),
        (("cat",), "extractive", "dog       ", 0.0),
        # right answers that a form gives, and that would decline elsewhere
        (("None",), "extractive", "none", 1.0),
        (("Paris", "nil"), "abstractive", " NIL\n", 1.0),
        (("N/A",), "extractive", "N/A.", 0.75),
        (("not given",), "extractive", "It is not given.", 0.0),
    ],
)
def test_dude(answers, kind, answer, score):
    sample = question(dataset="dude", answers=answers, answerable=bool(answers), answer_format=kind)
    assert official.dude(judged_answer(sample, answer)).values["anls"] == pytest.approx(score)


def test_slidevqa_scores_evidence_where_a_system_names_it():
    sample = question(
        dataset="slidevqa", evidence_pages=(4, 9), extra={"native_evidence_pages": [9, 4]}
    )
    assert set(official.slidevqa(judged_answer(sample, "Lake Ontario")).values) == {
        "qa_em",
        "qa_f1",
    }
    own = play_of(
        sample, turn("answer", "Lake Ontario", relevant_pages=[9, 4]), system="doc_v_star"
    )
    found = official.slidevqa(JudgedAnswer(sample, read_trajectory(own))).values
    assert (found["evidence_em"], found["joint_em"]) == (1.0, 1.0)
    silent = play_of(sample, turn("answer", "Lake Ontario"), system="doc_v_star")
    assert (
        official.slidevqa(JudgedAnswer(sample, read_trajectory(silent))).values["evidence_f1"]
        == 0.0
    )


def test_uda_reads_the_marked_answer_by_its_part():
    sample = question(dataset="uda_paper_text", answers=("No", "They do not report it"))
    right = official.uda("paper_text")(judged_answer(sample, "Hm. The answer is: Not reported"))
    assert right.values == {"uda_f1": 1.0}
    assert official.uda("feta")(judged_answer(sample, "Not reported")).values == {"uda_f1": 0.0}


def test_accuracy_and_f1_of_the_specification():
    """There are ten questions, of which three cannot be answered."""
    golds, said = [1.0] * 7 + [0.0] * 3, [1.0] * 3 + [0.0] * 2 + [1.0] * 2 + [0.0] * 3
    scores = [1, 1, 0.8, 0, 0, 1, 0, 1, 1, 1]
    values = [
        {"score": score, "gold_answerable": gold, "answered": given}
        for gold, given, score in zip(golds, said, scores, strict=True)
    ]
    accuracy, f1 = PROTOCOLS["mmlongbench"].measures
    assert (total(accuracy, values), total(f1, values)) == pytest.approx((0.68, 0.6333), abs=5e-5)


ROWS = st.lists(
    st.tuples(st.sampled_from(["41", NA]), st.sampled_from(["41", NA, "x"]), st.floats(0, 1)),
    max_size=30,
)


def total(measure, values):
    sums = np.array([measure.sums(each) for each in values]).reshape(-1, measure.width).sum(axis=0)
    return float(measure.combine(sums, len(values)))


@given(ROWS)
def test_numbers_of_mmlongbench_and_longdocurl_are_the_official_ones(rows):
    values = [
        {
            "score": score,
            "inline_score": score,
            "gold_answerable": gold != NA,
            "answered": pred != NA,
        }
        for gold, pred, score in rows
    ]
    acc, f1 = slow.accuracy_f1(rows)
    numbers = {"acc": acc, "acc_inline": acc, "f1": f1, "rectified_acc": acc * len(rows) / 2325}
    for dataset in ("mmlongbench", "longdocurl"):
        for measure in PROTOCOLS[dataset].measures:
            found = total(measure, values)
            if rows or measure.form is Form.F1:
                assert found == pytest.approx(numbers[measure.name], abs=1e-12)
            else:
                assert math.isnan(found)
