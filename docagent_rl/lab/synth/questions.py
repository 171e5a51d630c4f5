"""Chooses the questions of a document and writes them as records."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from docagent_rl.lab.synth.candidate import Candidate, Subject, to_decimal
from docagent_rl.lab.synth.layout import Rendered
from docagent_rl.lab.synth.settings import PROFILES, QuestionKind, SynthSettings
from docagent_rl.lab.synth.table_questions import table_candidates
from docagent_rl.lab.synth.text_questions import text_candidates
from docagent_rl.records.fields import Box, Split
from docagent_rl.records.record import Record, check_record

DATASET = "synthetic"
_REPEAT = 0.5
"""Factor on the weight of a kind each time it is drawn: even a few questions then are of several kinds."""


def make_questions(rendered: Rendered, settings: SynthSettings, split: Split) -> list[Record]:
    """At most `settings.questions_per_document` records about one document, in a seeded order.

    `extra.row` is -1: the row in the file is known when all documents are done.
    """
    plan = rendered.plan
    rng = random.Random(f"questions/{settings.seed}/{plan.index}")
    subject = Subject.of(rendered, rng)
    pools: dict[QuestionKind, list[Candidate]] = defaultdict(list)
    for candidate in (*text_candidates(subject), *table_candidates(subject)):
        pools[candidate.kind].append(candidate)
    weights = dict(PROFILES[plan.difficulty].mix)
    records = []
    while pools and len(records) < settings.questions_per_document:
        kinds = [kind for kind in QuestionKind if kind in pools]
        (kind,) = rng.choices(kinds, weights=[weights[kind] for kind in kinds])
        pool = pools[kind]
        candidate = pool.pop(rng.randrange(len(pool)))
        if not pool:
            del pools[kind]
        weights[kind] *= _REPEAT
        records.append(_record(rendered, candidate, len(records), split))
    return records


def _record(rendered: Rendered, candidate: Candidate, number: int, split: Split) -> Record:
    plan = rendered.plan
    boxes: dict[int, list[Box]] = defaultdict(list)
    for spot in candidate.spots:
        boxes[spot.page].append(spot.box)
    question_id = f"{plan.doc_id}-q{number:03d}"
    answer_format, gold = _gold(candidate)
    record = Record(
        question_id=question_id,
        dataset=DATASET,
        split=split,
        doc_id=plan.doc_id,
        question=candidate.question,
        answers=candidate.answers,
        answer_format=answer_format,
        evidence_pages=tuple(sorted(boxes)),
        evidence_boxes={page: tuple(boxes[page]) for page in sorted(boxes)},
        evidence_sources=tuple(source.value for source in candidate.sources),
        answerable=candidate.kind is not QuestionKind.UNANSWERABLE,
        extra={
            "gold": gold,
            "num_pages": rendered.num_pages,
            "native_id": question_id,
            "row": -1,
            "kind": candidate.kind.value,
            "difficulty": plan.difficulty.value,
            "hops": 2 if candidate.kind is QuestionKind.TWO_HOP else int(bool(candidate.spots)),
            "derivation": dict(candidate.derivation) if candidate.derivation else None,
            **candidate.details,
        },
    )
    return check_record(record)


def _gold(candidate: Candidate) -> tuple[str, Any]:
    """The answer type in the words of MMLongBench-Doc, and the gold value with that type."""
    if not candidate.answers:
        return "None", None
    plain = candidate.answers[-1]
    try:
        value = to_decimal(plain)
    except ArithmeticError:  # decimal.InvalidOperation: not a number
        return "Str", candidate.answers[0]
    return ("Float", float(value)) if "." in plain else ("Int", int(value))
