"""Chooses the questions of a document and writes them as samples."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from docagent_rl.lab.synth.candidates import Candidate, candidates, to_decimal
from docagent_rl.lab.synth.layout import Rendered
from docagent_rl.lab.synth.settings import PROFILES, QuestionKind, SynthSettings
from docagent_rl.samples.fields import Box, Split
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.validation import check_sample

_REPEAT = 0.5
"""Factor on the weight of a kind each time it is drawn: even a few questions then are of several kinds."""


def make_questions(rendered: Rendered, settings: SynthSettings, split: Split) -> list[Sample]:
    """Return at most `settings.questions_per_document` samples about one document, in a seeded order.

    `extra.row` is -1: the row in the file is known when all documents are done.
    """
    rng = random.Random(f"questions/{settings.seed}/{rendered.plan.index}")
    pools: dict[QuestionKind, list[Candidate]] = defaultdict(list)
    for candidate in candidates(rendered, rng):
        pools[candidate.kind].append(candidate)
    weights = dict(PROFILES[rendered.plan.difficulty].mix)
    samples: list[Sample] = []
    while len(samples) < settings.questions_per_document and (kinds := [k for k in QuestionKind if pools[k]]):
        (kind,) = rng.choices(kinds, weights=[weights[each] for each in kinds])
        candidate = pools[kind].pop(rng.randrange(len(pools[kind])))
        weights[kind] *= _REPEAT
        samples.append(_sample(rendered, candidate, len(samples), split))
    return samples


def _sample(rendered: Rendered, candidate: Candidate, number: int, split: Split) -> Sample:
    plan = rendered.plan
    boxes: dict[int, list[Box]] = defaultdict(list)
    for spot in candidate.spots:
        boxes[spot.page].append(spot.box)
    question_id = f"{plan.doc_id}-q{number:03d}"
    answer_format, gold = _gold(candidate)
    sample = Sample(
        question_id=question_id,
        dataset="synthetic",
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
            "derivation": candidate.derivation,
            **candidate.details,
        },
    )
    return check_sample(sample)


def _gold(candidate: Candidate) -> tuple[str, Any]:
    """Return the answer type in the words of MMLongBench-Doc, and the gold value with that type."""
    if not candidate.answers:
        return "None", None
    plain = candidate.answers[-1]
    try:
        value = to_decimal(plain)
    except ArithmeticError:  # decimal.InvalidOperation: not a number
        return "Str", candidate.answers[0]
    return ("Float", float(value)) if "." in plain else ("Int", int(value))
