"""Questions about a finished document: everything that can be asked, and the selection that becomes
samples.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from docagent_rl.lab.synth.flowables import Spot
from docagent_rl.lab.synth.layout import Rendered
from docagent_rl.lab.synth.lexicon import LEXICON
from docagent_rl.lab.synth.model import Block, Chart, Prose, Table, TableKind
from docagent_rl.lab.synth.settings import PROFILES, QuestionKind, SynthSettings
from docagent_rl.samples.sample import Box, EvidenceSource, Sample, Split
from docagent_rl.samples.validation import check_sample

_REPEAT = 0.5
"""Factor on the weight of a kind each time it is drawn, so that even a few questions are of several
kinds.
"""
_ORDINALS = ("first", "second", "third", "fourth")


class _Wording(NamedTuple):
    """The words for a question about a kind of table; slots are the names of row and column, the
    `nth` row, and others.
    """

    verb: str
    holder: str
    """The entity and the time to which the value in a cell belongs."""


_WORDINGS: Mapping[TableKind, _Wording] = {
    "yearly": _Wording("was", "the {row} {unit} of {company} in {column}"),
    "hubs": _Wording("is", "the {row} {hub} of {company}"),
    "quarterly": _Wording("was", "the {name} {unit} of {company} in the {nth} quarter of {year}"),
}


@dataclass(frozen=True)
class CandidateQuestion:
    """A question with its answer and evidence."""

    kind: QuestionKind
    question: str
    answers: tuple[str, ...]
    """Accepted answers, the printed or most natural form first."""
    spots: tuple[Spot, ...] = ()
    sources: tuple[EvidenceSource, ...] = (EvidenceSource.TABLE,)
    details: Mapping[str, Any] = field(default_factory=dict)
    """Additional entries of `extra`."""


def make_questions(
    rendered: Rendered, settings: SynthSettings, split: Split, first: int = 0
) -> list[Sample]:
    """Return at most `settings.questions_per_document` samples about one document, in a seeded
    order.

    `first` is the row number of the first one in the file.
    """
    rng = random.Random(f"questions/{settings.seed}/{rendered.plan.index}")
    pools: dict[QuestionKind, list[CandidateQuestion]] = defaultdict(list)
    for candidate in _Author(rendered, rng).all():
        pools[candidate.kind].append(candidate)
    weights = dict(zip(QuestionKind, PROFILES[rendered.plan.difficulty].mix, strict=True))
    samples: list[Sample] = []
    while len(samples) < settings.questions_per_document and (
        kinds := [k for k in QuestionKind if pools[k]]
    ):
        (kind,) = rng.choices(kinds, weights=[weights[each] for each in kinds])
        candidate = pools[kind].pop(rng.randrange(len(pools[kind])))
        weights[kind] *= _REPEAT
        samples.append(_sample(rendered, candidate, len(samples), first, split))
    return samples


def _sample(
    rendered: Rendered, candidate: CandidateQuestion, number: int, first: int, split: Split
) -> Sample:
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
            "row": first + number,
            "kind": candidate.kind.value,
            "difficulty": plan.difficulty.value,
            "hops": 2 if candidate.kind is QuestionKind.TWO_HOP else int(bool(candidate.spots)),
            **candidate.details,
        },
    )
    return check_sample(sample)


def _gold(candidate: CandidateQuestion) -> tuple[str, Any]:
    """Return the answer format in the words of MMLongBench-Doc, and the gold value of that type."""
    if not candidate.answers:
        return "None", None
    plain = candidate.answers[-1]
    try:
        value = to_decimal(plain)
    except ArithmeticError:  # decimal.InvalidOperation: not a number
        return "Str", candidate.answers[0]
    return ("Float", float(value)) if "." in plain else ("Int", int(value))


def to_decimal(printed: str) -> Decimal:
    """Return the exact value of a printed number."""
    return Decimal(printed.replace(",", ""))


class _Author:
    """Yields everything that can be asked about a document; `rng` chooses among wordings."""

    def __init__(self, rendered: Rendered, rng: random.Random) -> None:
        self.rng = rng
        self.sections = rendered.sections
        self.plan = rendered.plan
        self.theme = self.plan.theme
        self.company = self.plan.company
        self.year = self.plan.year
        self.spots = rendered.spots
        self.blocks: list[Block] = [block for section in self.sections for block in section.blocks]
        self.tables = [block for block in self.blocks if isinstance(block, Table)]

    def all(self) -> Iterator[CandidateQuestion]:
        for block in self.blocks:
            if isinstance(block, Prose):
                yield from self._facts(block)
            elif isinstance(block, Chart):
                yield from self._chart(block)
        yield from self._headings()
        yield from self._two_hops()
        yield from self._unanswerable()
        for table in self.tables:
            yield from self._cells(table)

    def _unit(self, name: str) -> str:
        """Return a phrase that names the unit and the document's organisation."""
        return f"the {name} {self.theme.unit} of {self.company}"

    def _facts(self, prose: Prose) -> Iterator[CandidateQuestion]:
        for fact in prose.facts:
            question = self.rng.choice(fact.questions)
            answers = _number_answers(fact.value)
            spots = (self.spots[prose.key],)
            yield CandidateQuestion(
                QuestionKind.TEXT_FACT, question, answers, spots, (EvidenceSource.TEXT,)
            )

    def _chart(self, chart: Chart) -> Iterator[CandidateQuestion]:
        spots = (self.spots[chart.key],)
        sources = (EvidenceSource.CHART,)
        if chart.values_in_caption:
            spots = (_union(*spots, self.spots[f"{chart.key}/caption"]),)
        details = {"chart_only": not chart.values_in_caption}
        for ordinal, value in zip(_ORDINALS, chart.values, strict=True):
            holder = f"{self._unit(chart.unit)} in the {ordinal} quarter of {self.year}"
            question = f"What was the {chart.measure.noun} of {holder}{chart.measure.in_unit}?"
            answers = _number_answers(value)
            yield CandidateQuestion(
                QuestionKind.CHART_VALUE, question, answers, spots, sources, details=details
            )

    def _headings(self) -> Iterator[CandidateQuestion]:
        seen = set()
        where = f"of the {self.plan.report} of {self.company}"
        kind = QuestionKind.PAGE_INDEX
        sources = (EvidenceSource.LAYOUT,)
        for section in self.sections:
            spot = self.spots[section.key]
            question = f'On which page {where} does the section "{section.title}" begin?'
            yield CandidateQuestion(kind, question, (str(spot.page),), (spot,), sources)
            if spot.page not in seen:  # sections are in page order
                seen.add(spot.page)
                question = f"Which section heading comes first on page {spot.page} {where}?"
                yield CandidateQuestion(kind, question, (section.title,), (spot,), sources)

    def _two_hops(self) -> Iterator[CandidateQuestion]:
        hubs = next(table for table in self.tables if table.kind == "hubs")
        sources = (EvidenceSource.TEXT, EvidenceSource.TABLE)
        for unit in self.plan.units:
            row = hubs.column(0).index(unit.hub)
            first = self.spots.get(f"hub/{unit.name}")
            second = self._row(hubs, row)
            if first is None or first.page == second.page:
                continue
            clause = self.theme.hub_clause.format(unit=self._unit(unit.name))
            details = {"bridge": unit.hub}
            for measure, cell in zip(hubs.measures, hubs.rows[row][1:], strict=True):
                question = f"What is the {measure.noun} of {clause}{measure.in_unit}?"
                answers = _number_answers(cell)
                yield CandidateQuestion(
                    QuestionKind.TWO_HOP,
                    question,
                    answers,
                    (first, second),
                    sources,
                    details=details,
                )

    def _unanswerable(self) -> Iterator[CandidateQuestion]:
        for name in self.plan.absent:
            words = {
                "unit": f"the {name} {self.theme.unit}",
                "company": self.company,
                "year": self.year,
            }
            for attribute in LEXICON.staff + LEXICON.premises:
                question = self.rng.choice(attribute.questions).format(**words)
                details = {"absent": name}
                yield CandidateQuestion(
                    QuestionKind.UNANSWERABLE, question, (), sources=(), details=details
                )

    def _row(self, table: Table, row: int) -> Spot:
        return self.spots[f"{table.key}/row/{row}"]

    def _words(self, table: Table, row: int, column: int) -> dict[str, object]:
        """Return the words that fill the slots of a wording about a cell."""
        theme = self.theme
        names = {"company": self.company, "year": self.year, "name": table.unit}
        cell = {
            "row": table.rows[row][0],
            "column": table.header[column],
            "nth": _ORDINALS[row % 4],
        }
        return {**names, **cell, "unit": theme.unit, "hub": theme.hub}

    def _cells(self, table: Table) -> Iterator[CandidateQuestion]:
        wording = _WORDINGS[table.kind]
        for row, (_, *cells) in enumerate(table.rows):
            for column, (measure, cell) in enumerate(
                zip(table.measures, cells, strict=True), start=1
            ):
                holder = wording.holder.format(**self._words(table, row, column))
                question = f"What {wording.verb} the {measure.noun} of {holder}{measure.in_unit}?"
                spots = (self._row(table, row),)
                yield CandidateQuestion(
                    QuestionKind.TABLE_CELL, question, _number_answers(cell), spots
                )


def _number_answers(printed: str) -> tuple[str, ...]:
    """Return a printed number, and the same without commas if that differs."""
    plain = printed.replace(",", "")
    return (printed,) if plain == printed else (printed, plain)


def _union(first: Spot, second: Spot) -> Spot:
    boxes = list(zip(first.box, second.box, strict=True))
    return Spot(first.page, (min(boxes[0]), min(boxes[1]), max(boxes[2]), max(boxes[3])))
