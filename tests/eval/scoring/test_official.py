"""Scores of sessions by benchmark, against the benchmark's own functions on the whole set."""

from __future__ import annotations

import pytest

from docagent_rl.eval.metrics.prompt_files import AnswerJudge, Extractor
from docagent_rl.eval.scoring import official
from docagent_rl.eval.scoring.experts import Opinion
from docagent_rl.eval.scoring.official import Subject
from docagent_rl.eval.scoring.played import read_session
from docagent_rl.eval.scoring.protocols import PROTOCOLS, protocol_of
from docagent_rl.records.importers import Benchmark, get_importer
from tests.eval.scoring.sessions import answered, question, session, turn


def subject(record, answer, opinions=None, **changes) -> Subject:
    trajectory = session(record) if answer is None else answered(record, answer, **changes)
    return Subject(record, read_session(trajectory), opinions or {})


def extracted(text):
    return {Extractor.MMLONGBENCH_DOC: Opinion(f"Extracted answer: {text}\nAnswer format: String", "m")}


def test_every_imported_benchmark_has_a_protocol():
    datasets = {
        getattr(__import__(type(get_importer(each)).__module__, fromlist=["x"]), "DATASET", None)
        for each in Benchmark
    } - {None}
    assert datasets <= set(PROTOCOLS)
    assert {"uda_paper_tab", "uda_paper_text", "uda_feta"} <= set(PROTOCOLS)
    assert protocol_of("mine").headline.name == "rule"


def test_mmlongbench_goes_by_the_native_answer_and_pages():
    record = question(
        dataset="mmlongbench",
        answer_format="List",
        answers=("teal", "ochre"),
        extra={"gold": "['teal', 'ochre']", "native_evidence_pages": "[3, 1418]", "doc_type": "Guidebook"},
    )
    found = official.mmlongbench(subject(record, "Teal and ochre.", extracted("['Ochre', 'Teal']")))
    assert found.values == {"score": 1.0, "gold_answerable": 1.0, "answered": 1.0}
    assert found.groups == ("cross_page", "source/Table", "type/Guidebook")


def test_an_unanswerable_question_without_an_answer_is_wrong():
    record = question(dataset="mmlongbench", answers=(), answerable=False, extra={"gold": "Not answerable"})
    found = official.mmlongbench(subject(record, None))
    assert found.values == {"score": 0.0, "gold_answerable": 0.0, "answered": 1.0}
    right = official.mmlongbench(subject(record, "It is not there.", extracted("Not answerable")))
    assert right.values == {"score": 1.0, "gold_answerable": 0.0, "answered": 0.0}


def test_longdocurl_keeps_types_and_both_scores():
    record = question(
        dataset="longdocurl",
        answer_format="List",
        extra={"gold": ["1", "2"], "task_tag": "Locating", "question_type": "summary2tab"},
    )
    reply = "<concise_answer>1, 2</concise_answer><answer_format>List</answer_format>"
    found = official.longdocurl(subject(record, "1 and 2", {Extractor.LONGDOCURL: Opinion(reply, "m")}))
    assert (found.values["score"], found.values["inline_score"]) == (1.0, 0.0)
    assert found.groups == ("Locating, Cross_Table", "single_page", "source/Table", "task/Locating")


def test_mp_docvqa_takes_the_page_that_the_answer_stands_on():
    record = question(dataset="mpdocvqa", answers=("Ridge Road",), evidence_pages=(3,))
    for answer, pages, value in (("ridge road", (2, 3), 1.0), ("none", (3, 2), 0.0)):
        found = official.mp_docvqa(subject(record, answer, pages=pages)).values
        assert found == {"anls": value, "accuracy": value, "appa": value}


@pytest.mark.parametrize(
    ("answers", "kind", "answer", "score"),
    [
        (("red", "green", "blue"), "list/extractive", "blue; red", 2 / 3),
        (("red", "green"), "list/abstractive", "green\nred\n", 1.0),
        ((), "not-answerable", "This cannot be answered from the document.", 1.0),
        ((), "not-answerable", "blue", 0.0),
        ((), "not-answerable", None, 0.0),
        (("cat",), "extractive", "dog       ", 0.0),
        # right answers that a form gives, and that would decline elsewhere
        (("None",), "extractive", "none", 1.0),
        (("Paris", "nil"), "abstractive", " NIL\n", 1.0),
        (("N/A",), "extractive", "N/A.", 0.75),
        (("Unknown",), "list/extractive", "unknown", 1.0),
        (("not given",), "extractive", "It is not given.", 0.0),
    ],
)
def test_dude(answers, kind, answer, score):
    record = question(dataset="dude", answers=answers, answerable=bool(answers), answer_format=kind)
    assert official.dude(subject(record, answer)).values["anls"] == pytest.approx(score)


def test_slidevqa_scores_evidence_where_a_system_names_it():
    record = question(dataset="slidevqa", evidence_pages=(4, 9), extra={"native_evidence_pages": [9, 4]})
    assert set(official.slidevqa(subject(record, "Lake Ontario")).values) == {"qa_em", "qa_f1"}
    own = session(record, turn("answer", "Lake Ontario", relevant_pages=[9, 4]), system="doc_v_star")
    found = official.slidevqa(Subject(record, read_session(own))).values
    assert (found["evidence_em"], found["joint_em"]) == (1.0, 1.0)
    silent = session(record, turn("answer", "Lake Ontario"), system="doc_v_star")
    assert official.slidevqa(Subject(record, read_session(silent))).values["evidence_f1"] == 0.0


@pytest.mark.parametrize(("reply", "grade", "passing"), [("4 fine", 4, 1), ("3", 3, 0), (None, 0, 0)])
def test_vidoseek_grades_and_ranks(reply, grade, passing):
    record = question(dataset="vidoseek", evidence_pages=(3, 4))
    told = {AnswerJudge.VIDOSEEK: Opinion(reply, "m")}
    values = official.vidoseek(subject(record, "x", told, pages=(4, 9, 3))).values
    assert (values["grade"], values["passing"]) == (grade, passing)
    assert (values["recall@1"], values["recall@5"], values["mrr@all"]) == (0.5, 1.0, 1.0)
    assert values["ndcg@5"] == pytest.approx(0.9197, abs=1e-4)


def test_uda_reads_the_marked_answer_by_its_part():
    record = question(dataset="uda_paper_text", answers=("No", "They do not report it"))
    right = official.uda("paper_text")(subject(record, "Hm. The answer is: Not reported"))
    assert right.values == {"uda_f1": 1.0}
    assert official.uda("feta")(subject(record, "Not reported")).values == {"uda_f1": 0.0}
