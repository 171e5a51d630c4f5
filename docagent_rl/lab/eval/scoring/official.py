"""Scores of a trajectory by its benchmark's definitions (`docagent_rl.lab.eval.metrics`)."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from docagent_rl.lab.eval.metrics import accuracy, answers, madqa
from docagent_rl.lab.eval.metrics.judges import (
    PASSING,
    AnswerJudge,
    Extractor,
    parse_grade_judge,
    parse_match_judge,
    parse_score_judge,
)
from docagent_rl.lab.eval.metrics.relevance import graded_ndcg
from docagent_rl.lab.eval.scoring.played import native_pages
from docagent_rl.lab.eval.scoring.roles import JudgedAnswer, gold_variants
from docagent_rl.rewards.mmlongbench import extracted_answer
from docagent_rl.rewards.retrieval import navigation
from docagent_rl.rewards.rule.claims import QuestionHints
from docagent_rl.rewards.rule.refusals import declines
from docagent_rl.rewards.rule.words import fold
from docagent_rl.rewards.rule_judge import MAX_CHARS
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.samples.sample import Sample

_ITEM_ENDS = re.compile(r"[;\n]")
_RIGHT = 0.5
"""Lowest ANLS* at which MADQA counts an answer as right."""


@dataclass(frozen=True, slots=True)
class Official:
    """Score of a trajectory by its benchmark's definition."""

    values: dict[str, float | None]
    groups: tuple[str, ...] = ()
    """Lines of the benchmark's own table in which the question counts."""


def answer_alone(judged_answer: JudgedAnswer) -> Official:
    """Return no value, since the benchmark has no definition of its own."""
    return Official({})


def mmlongbench(judged_answer: JudgedAnswer) -> Official:
    """Score MMLongBench-Doc: the score, and what its F1 counts."""
    sample = judged_answer.sample
    reply = judged_answer.reply(Extractor.MMLONGBENCH_DOC)
    gold = str(sample.extra.get("gold", NOT_ANSWERABLE))
    given = None if reply is None else extracted_answer(reply)
    pred = accuracy.NOT_EXTRACTED if given is None else given
    values = _counted(gold, pred, accuracy.mmlongbench_score(gold, pred, sample.answer_format))
    pages = len(native_pages(sample))
    doc_type = _native(sample, "doc_type")
    lines = accuracy.mmlongbench_lines(
        pages, sample.evidence_sources, doc_type, answerable=gold != NOT_ANSWERABLE
    )
    return Official(values, tuple(lines))


def mmlongbench_v2(judged_answer: JudgedAnswer) -> Official:
    """Score MMLongBench-Doc-V2 (arXiv 2608.03397, `eval/metrics.py`): the judge's verdict, and what
    its F1 counts.

    A trajectory without an answer counts as wrong and as not answered; the official script would
    still ask its judge.
    """
    sample = judged_answer.sample
    reply = judged_answer.reply(AnswerJudge.MMLONGBENCH_DOC_V2)
    match = None if reply is None else parse_match_judge(reply)
    answerable = not str(sample.extra.get("gold", NOT_ANSWERABLE)).startswith(NOT_ANSWERABLE)
    abstained = judged_answer.played.answer is None or (match is not None and match.abstained)
    values = {
        "score": float(match is not None and match.equivalent),
        "gold_answerable": float(answerable),
        "answered": float(not abstained),
    }
    pages = len(native_pages(sample))
    doc_type = _native(sample, "doc_type")
    lines = accuracy.mmlongbench_lines(
        pages, sample.evidence_sources, doc_type, answerable=answerable
    )
    return Official(values, tuple(lines))


def longdocurl(judged_answer: JudgedAnswer) -> Official:
    """Score LongDocURL: the score, the score before the prediction was written to JSON, and what
    its F1 counts.
    """
    sample = judged_answer.sample
    reply = judged_answer.reply(Extractor.LONGDOCURL)
    gold = sample.extra.get("gold", NOT_ANSWERABLE)
    pred = accuracy.FAILED if reply is None else accuracy.longdocurl_parse(reply)
    inline = accuracy.FAILED if reply is None else accuracy.longdocurl_inline(reply)
    values = _counted(gold, pred, accuracy.longdocurl_score(gold, pred, sample.answer_format))
    values["inline_score"] = accuracy.longdocurl_score(gold, inline, sample.answer_format)
    tag = _native(sample, "task_tag")
    kind = _native(sample, "question_type")
    lines = accuracy.longdocurl_lines(tag, len(native_pages(sample)), sample.evidence_sources, kind)
    return Official(values, tuple(lines))


def mp_docvqa(judged_answer: JudgedAnswer) -> Official:
    """Score MP-DocVQA: ANLS, accuracy, and whether the answer's page was found."""
    sample = judged_answer.sample
    answer = judged_answer.played.answer
    page = judged_answer.played.answer_page
    right = None
    if len(sample.evidence_pages) == 1:
        given = page[1] if page is not None and page[0] == sample.doc_id else None
        right = float(sample.evidence_pages[0] == given)
    values = {
        "anls": answers.mp_docvqa_anls(sample.answers, answer),
        "accuracy": float(answers.mpdocvqa_accuracy(sample.answers, answer)),
        "appa": right,
    }
    return Official(values)


def dude(judged_answer: JudgedAnswer) -> Official:
    """Score DUDE: its ANLS. A list is split at semicolons and line breaks; a refusal is an empty
    answer.

    A right answer never counts as a refusal, whatever it says.
    """
    sample = judged_answer.sample
    answer = judged_answer.played.answer
    if answer is None:
        # for an unanswerable question an empty answer would be right, but there is no answer at all
        return Official({"anls": 0.0}, (sample.answer_format,))
    listed = "list" in sample.answer_format
    items = listed_items(answer) if listed else answer
    pred = answers.dude_prediction(items, refused=refuses(sample.question, answer, sample.answers))
    score = answers.dude_anls(sample.answers, pred, sample.answer_format)
    return Official({"anls": score}, (sample.answer_format,))


def slidevqa(judged_answer: JudgedAnswer) -> Official:
    """Score SlideVQA: the answer, and the evidence if the system names its pages."""
    sample = judged_answer.sample
    played = judged_answer.played
    gold = sample.extra.get("gold")
    qa = answers.slidevqa_em_f1(
        str(sample.answers[0] if gold is None else gold), played.answer, sample.question
    )
    values: dict[str, float | None] = {"qa_em": qa["em"], "qa_f1": qa["f1"]}
    if played.cited is not None:
        pages = [page for doc_id, page in played.cited if doc_id == sample.doc_id]
        evidence = answers.overlap(native_pages(sample), pages)
        joint = answers.slidevqa_joint(qa, evidence)
        values |= {"evidence_em": evidence["em"], "evidence_f1": evidence["f1"]}
        values |= {"joint_em": joint["em"], "joint_f1": joint["f1"]}
    return Official(values)


def vidoseek(judged_answer: JudgedAnswer) -> Official:
    """Score ViDoSeek: the judge's grade, 0 without one, and the ranking of the collected pages."""
    reply = judged_answer.reply(AnswerJudge.VIDOSEEK)
    grade = (None if reply is None else parse_score_judge(reply)) or 0
    gold = [f"{doc_id}#{page}" for doc_id, page in sorted(judged_answer.sample.gold_pages)]
    ranks = answers.ranking_scores(
        gold, [f"{doc_id}#{page}" for doc_id, page in judged_answer.played.collected]
    )
    values = {"grade": float(grade), "passing": float(grade >= PASSING), **ranks}
    return Official(values)


def madqa_score(judged_answer: JudgedAnswer) -> Official:
    """Score MADQA: ANLS*, the judge's grade, and citations if the system names its pages.

    If a right answer is a list, the answer is split into items at semicolons and line breaks.
    """
    sample = judged_answer.sample
    played = judged_answer.played
    variants = gold_variants(sample)
    answer = played.answer or ""
    listed = any(len(items) > 1 for items in variants)
    items = [item for item in _ITEM_ENDS.split(answer) if item.strip()] if listed else [answer]
    similarity = madqa.anls_star(variants, items) if answer.strip() else 0.0
    reply = judged_answer.reply(AnswerJudge.MADQA)
    grade = None if reply is None else parse_grade_judge(reply)
    values: dict[str, float | None] = {
        "semantic": madqa.semantic_score(similarity, grade, items if listed else answer),
        "anls_star": similarity,
        "accuracy": float(similarity >= _RIGHT),
    }
    if played.cited is not None:
        for name, gold, cited in (
            ("cited_page_f1", sample.gold_pages, played.cited),
            ("cited_document_f1", _documents(sample.gold_pages), _documents(played.cited)),
        ):
            values[name] = navigation(cited, gold).get("f1", 0.0)
    return Official(values, (madqa.hop(sample.gold_pages),))


def _documents(pages: Iterable[tuple[str, int]]) -> set[str]:
    return {document for document, _ in pages}


def vidore_v3(judged_answer: JudgedAnswer) -> Official:
    """Score ViDoRe V3: nDCG@10 of the collected pages, in the order in which they were collected,
    by the pages' grades.
    """
    grades = judged_answer.sample.extra.get("relevance")
    if not isinstance(grades, dict):
        grades = {f"{doc_id}#{page}": 1 for doc_id, page in judged_answer.sample.gold_pages}
    known = {page: grade for page, grade in grades.items() if type(grade) in (int, float)}
    ranked = [f"{doc_id}#{page}" for doc_id, page in judged_answer.played.collected]
    return Official({"ndcg@10": graded_ndcg(known, ranked)})


def uda(subset: str) -> Callable[[JudgedAnswer], Official]:
    """Return the function that scores a subset of UDA."""

    def scored(judged_answer: JudgedAnswer) -> Official:
        answer = judged_answer.played.answer
        pred = None if answer is None else answers.uda_answer(answer)
        return Official({"uda_f1": answers.uda_f1(judged_answer.sample.answers, pred, subset)})

    return scored


def listed_items(answer: str) -> list[str]:
    """Return the items of an answer that is a list, as they end with semicolons or lines."""
    return [item for item in _ITEM_ENDS.split(answer) if item.strip()]


def refuses(question: str, answer: str | None, golds: Iterable[str] = ()) -> bool:
    """Return whether an answer declines the question, by the embedded judge's rules.

    A right answer, such as "None" or "N/A" from a form, declines nothing.
    """
    if answer is None or not answer.strip() or len(answer) > MAX_CHARS:
        return False
    given, *rights = (" ".join(text.casefold().split()).rstrip(" .!") for text in (answer, *golds))
    return given not in rights and declines(fold(answer), QuestionHints(question))


def _counted(gold: Any, pred: Any, score: float) -> dict[str, float | None]:
    """Return a score with the values that the F1 of `Form.F1` counts."""
    return {
        "score": score,
        "gold_answerable": float(gold != NOT_ANSWERABLE),
        "answered": float(pred != NOT_ANSWERABLE),
    }


def _native(sample: Sample, name: str) -> str | None:
    """Return a text that the importer kept unchanged from the benchmark."""
    found = sample.extra.get(name)
    return found if isinstance(found, str) else None
