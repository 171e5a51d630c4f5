"""Values of a session by the definitions of its benchmark (`docagent_rl.lab.eval.metrics`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.lab.eval.metrics.dude import dude_anls, dude_prediction
from docagent_rl.lab.eval.metrics.longdocurl import (
    FAILED,
    LongDocURLRow,
    longdocurl_breakdown,
    longdocurl_inline,
    longdocurl_parse,
    longdocurl_score,
)
from docagent_rl.lab.eval.metrics.mmlongbench_doc import FAILED as NOT_EXTRACTED
from docagent_rl.lab.eval.metrics.mmlongbench_doc import (
    MMLongBenchRow,
    mmlongbench_breakdown,
    mmlongbench_parse,
    mmlongbench_score,
)
from docagent_rl.lab.eval.metrics.mp_docvqa import anls, mpdocvqa_accuracy, page_accuracy
from docagent_rl.lab.eval.metrics.prompt_files import AnswerJudge, Extractor
from docagent_rl.lab.eval.metrics.retrieval import ranking_scores
from docagent_rl.lab.eval.metrics.slidevqa import slidevqa_em_f1, slidevqa_evidence, slidevqa_joint
from docagent_rl.lab.eval.metrics.uda import uda_answer, uda_f1
from docagent_rl.lab.eval.metrics.vidoseek import PASSING, parse_score_judge
from docagent_rl.lab.eval.scoring.experts import Expert, Opinion
from docagent_rl.lab.eval.scoring.labels import native_pages
from docagent_rl.lab.eval.scoring.played import Played
from docagent_rl.lab.eval.scoring.refusal import refuses
from docagent_rl.records.record import Record
from docagent_rl.rewards.text import NOT_ANSWERABLE

_ITEM_ENDS = re.compile(r"[;\n]")


@dataclass(frozen=True, slots=True)
class Subject:
    """A session that is scored.

    Args:
        record: the question, its gold answer known.
        played: what the session came to.
        opinions: of the experts that the benchmark needs.
    """

    record: Record
    played: Played
    opinions: Mapping[Expert, Opinion] = field(default_factory=dict)

    def reply(self, expert: Expert) -> str | None:
        """What an expert said."""
        opinion = self.opinions.get(expert)
        return None if opinion is None else opinion.reply


@dataclass(frozen=True, slots=True)
class Official:
    """What a benchmark's definition makes of a session.

    Args:
        values: by name.
        prediction: what was compared, JSON-ready.
        groups: lines of the benchmark's own table that the question stands in.
    """

    values: dict[str, float | None]
    prediction: Any = None
    groups: tuple[str, ...] = ()


def nothing(subject: Subject) -> Official:
    """Of a benchmark without a definition of its own."""
    return Official({}, subject.played.answer)


def mmlongbench(subject: Subject) -> Official:
    """MMLongBench-Doc: score, and what its F1 counts."""
    record, reply = subject.record, subject.reply(Extractor.MMLONGBENCH_DOC)
    gold = str(record.extra.get("gold", NOT_ANSWERABLE))
    given = None if reply is None else mmlongbench_parse(reply)
    pred = NOT_EXTRACTED if given is None else given
    score = mmlongbench_score(gold, pred, record.answer_format)
    row = MMLongBenchRow(
        gold, pred, score, native_pages(record), record.evidence_sources, _native(record, "doc_type")
    )
    return Official(_counted(gold, pred, score), pred, tuple(mmlongbench_breakdown([row])))


def longdocurl(subject: Subject) -> Official:
    """LongDocURL: score, the same before the prediction was written to JSON, and what its F1 counts."""
    record, reply = subject.record, subject.reply(Extractor.LONGDOCURL)
    gold = record.extra.get("gold", NOT_ANSWERABLE)
    pred = FAILED if reply is None else longdocurl_parse(reply)
    inline = FAILED if reply is None else longdocurl_inline(reply)
    score = longdocurl_score(gold, pred, record.answer_format)
    values = _counted(gold, pred, score)
    values["inline_score"] = longdocurl_score(gold, inline, record.answer_format)
    row = LongDocURLRow(
        gold,
        pred,
        score,
        task_tag=_native(record, "task_tag"),
        evidence_pages=native_pages(record),
        evidence_sources=record.evidence_sources,
        question_type=_native(record, "question_type"),
    )
    return Official(values, pred, tuple(longdocurl_breakdown([row], totals={})))


def mp_docvqa(subject: Subject) -> Official:
    """MP-DocVQA: ANLS, accuracy, and whether the answer's page was found."""
    record, answer = subject.record, subject.played.answer
    page = subject.played.answer_page
    right = None
    if len(record.evidence_pages) == 1:
        given = page[1] if page is not None and page[0] == record.doc_id else None
        right = float(page_accuracy(record.evidence_pages[0], given))
    values = {
        "anls": anls(record.answers, answer),
        "accuracy": float(mpdocvqa_accuracy(record.answers, answer)),
        "appa": right,
    }
    return Official(values, answer)


def dude(subject: Subject) -> Official:
    """DUDE's ANLS. A list is what semicolons and line breaks part; a refusal is an empty answer.

    A right answer is no refusal, whatever it says.
    """
    record, answer = subject.record, subject.played.answer
    if answer is None:
        # an unanswerable question wants an empty answer, which nobody gave
        return Official({"anls": 0.0}, None, (record.answer_format,))
    listed = "list" in record.answer_format
    items = [item for item in _ITEM_ENDS.split(answer) if item.strip()] if listed else answer
    pred = dude_prediction(items, refused=refuses(record.question, answer, record.answers))
    return Official(
        {"anls": dude_anls(record.answers, pred, record.answer_format)}, pred, (record.answer_format,)
    )


def slidevqa(subject: Subject) -> Official:
    """SlideVQA: answers, and evidence where the system names its own."""
    record, played = subject.record, subject.played
    gold = record.extra.get("gold")
    qa = slidevqa_em_f1(str(record.answers[0] if gold is None else gold), played.answer, record.question)
    values: dict[str, float | None] = {"qa_em": qa["em"], "qa_f1": qa["f1"]}
    if played.cited is not None:
        pages = [page for doc_id, page in played.cited if doc_id == record.doc_id]
        evidence = slidevqa_evidence(native_pages(record), pages)
        joint = slidevqa_joint(qa, evidence)
        values |= {"evidence_em": evidence["em"], "evidence_f1": evidence["f1"]}
        values |= {"joint_em": joint["em"], "joint_f1": joint["f1"]}
    return Official(values, played.answer)


def vidoseek(subject: Subject) -> Official:
    """ViDoSeek: the judge's grade, 0 without one, and the ranking of the pages that the session collected."""
    reply = subject.reply(AnswerJudge.VIDOSEEK)
    grade = (None if reply is None else parse_score_judge(reply)) or 0
    gold = [f"{doc_id}#{page}" for doc_id, page in sorted(subject.record.gold_pages)]
    ranks = ranking_scores(gold, [f"{doc_id}#{page}" for doc_id, page in subject.played.collected])
    values = {"grade": float(grade), "passing": float(grade >= PASSING), **ranks}
    return Official(values, subject.played.answer)


def uda(subset: str) -> Callable[[Subject], Official]:
    """A part of UDA."""

    def scored(subject: Subject) -> Official:
        answer = subject.played.answer
        pred = None if answer is None else uda_answer(answer)
        return Official({"uda_f1": uda_f1(subject.record.answers, pred, subset)}, pred)

    return scored


def _counted(gold: Any, pred: Any, score: float) -> dict[str, float | None]:
    """A score with what the F1 of `metrics.scored.accuracy_f1` counts."""
    return {
        "score": score,
        "gold_answerable": float(gold != NOT_ANSWERABLE),
        "answered": float(pred != NOT_ANSWERABLE),
    }


def _native(record: Record, name: str) -> str | None:
    """A text that the importer kept as the benchmark has it."""
    found = record.extra.get(name)
    return found if isinstance(found, str) else None
