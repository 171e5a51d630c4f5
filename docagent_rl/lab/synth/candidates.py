"""Everything that can be asked about a finished document."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from docagent_rl.lab.synth.flowables import Spot
from docagent_rl.lab.synth.layout import Rendered
from docagent_rl.lab.synth.lexicon import LEXICON
from docagent_rl.lab.synth.model import Block, Chart, Prose, Table, TableKind
from docagent_rl.lab.synth.plan import format_number
from docagent_rl.lab.synth.settings import QuestionKind
from docagent_rl.samples.fields import EvidenceSource

_ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Candidate:
    """A question with its answer and evidence."""

    kind: QuestionKind
    question: str
    answers: tuple[str, ...]
    """The printed or most natural form first."""
    spots: tuple[Spot, ...] = ()
    sources: tuple[EvidenceSource, ...] = (EvidenceSource.TABLE,)
    derivation: Mapping[str, Any] | None = None
    """`op` (how the answer follows), `operands` (printed) and what the operation needs besides.

    `page_of` a heading, `row_of_largest` or `row_of_smallest` of a column, `difference` without sign, `sum`,
    `count`, `count_above` a threshold; None when the answer is printed.
    """
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `extra`."""


def candidates(rendered: Rendered, rng: random.Random) -> Iterator[Candidate]:
    """Yield all questions about a document; `rng` chooses among wordings."""
    return _Author(rendered, rng).all()


def to_decimal(printed: str) -> Decimal:
    """Return the exact value of a printed number."""
    return Decimal(printed.replace(",", ""))


class _Author:
    def __init__(self, rendered: Rendered, rng: random.Random) -> None:
        self.rng, self.sections, self.plan = rng, rendered.sections, rendered.plan
        self.theme, self.company, self.year = self.plan.theme, self.plan.company, self.plan.year
        self.spots = rendered.spots
        self.blocks: list[Block] = [block for section in self.sections for block in section.blocks]
        self.tables = [block for block in self.blocks if isinstance(block, Table)]

    def all(self) -> Iterator[Candidate]:
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
            yield from self._extremes(table)
            if table.kind is TableKind.YEARLY:
                yield from self._changes(table)
                yield from self._sums(table)
                yield from self._counts_above(table)
            elif table.kind is TableKind.HUBS:
                yield self._count_rows(table)

    def _unit(self, name: str) -> str:
        """Return the unit as a phrase that names the document's organisation, too."""
        return f"the {name} {self.theme.unit} of {self.company}"

    def _facts(self, prose: Prose) -> Iterator[Candidate]:
        for fact in prose.facts:
            question, answers = self.rng.choice(fact.questions), _number_answers(fact.value)
            spots = (self.spots[prose.key],)
            yield Candidate(QuestionKind.TEXT_FACT, question, answers, spots, (EvidenceSource.TEXT,))

    def _chart(self, chart: Chart) -> Iterator[Candidate]:
        spot = self.spots[chart.key]
        if chart.values_in_caption:
            spot = _union(spot, self.spots[f"{chart.key}/caption"])
        unit = self._unit(chart.unit)
        details = {"chart_kind": chart.kind.value, "chart_only": not chart.values_in_caption}
        for position, value in enumerate(chart.values):
            quarter = f"the {_ORDINALS[position]} quarter of {self.year}"
            question = f"What was the {chart.measure.noun} of {unit} in {quarter}{chart.measure.in_unit}?"
            yield Candidate(
                QuestionKind.CHART_VALUE,
                question,
                _number_answers(value),
                (spot,),
                (EvidenceSource.CHART,),
                details=details,
            )

    def _headings(self) -> Iterator[Candidate]:
        seen = set()
        where = f"of the {self.plan.report} of {self.company}"
        kind, sources = QuestionKind.PAGE_INDEX, (EvidenceSource.LAYOUT,)
        for section in self.sections:
            spot = self.spots[section.key]
            question = f'On which page {where} does the section "{section.title}" begin?'
            derivation = {"op": "page_of", "operands": [section.title]}
            yield Candidate(kind, question, (str(spot.page),), (spot,), sources, derivation)
            if spot.page not in seen:  # sections come in the order of the page
                seen.add(spot.page)
                question = f"Which section heading comes first on page {spot.page} {where}?"
                yield Candidate(kind, question, (section.title,), (spot,), sources)

    def _two_hops(self) -> Iterator[Candidate]:
        hubs = next(table for table in self.tables if table.kind is TableKind.HUBS)
        sources = (EvidenceSource.TEXT, EvidenceSource.TABLE)
        for unit in self.plan.units:
            row = hubs.column(0).index(unit.hub)
            first, second = self.spots.get(f"hub/{unit.name}"), self.spots[f"{hubs.key}/row/{row}"]
            if first is None or first.page == second.page:
                continue
            clause = self.theme.hub_clause.format(unit=self._unit(unit.name))
            for measure, cell in zip(hubs.measures, hubs.rows[row][1:], strict=True):
                yield Candidate(
                    QuestionKind.TWO_HOP,
                    f"What is the {measure.noun} of {clause}{measure.in_unit}?",
                    _number_answers(cell),
                    (first, second),
                    sources,
                    details={"bridge": unit.hub},
                )

    def _unanswerable(self) -> Iterator[Candidate]:
        for name in self.plan.absent:
            words = {"unit": f"the {name} {self.theme.unit}", "company": self.company, "year": self.year}
            attributes = LEXICON.staff + LEXICON.premises
            questions = [self.rng.choice(attribute.questions).format(**words) for attribute in attributes]
            questions += [
                f"What was the {measure.noun} of {self._unit(name)} in {self.year}{measure.in_unit}?"
                for measure in self.theme.yearly
            ]
            for question in questions:
                yield Candidate(QuestionKind.UNANSWERABLE, question, (), sources=(), details={"absent": name})

    def _row(self, table: Table, row: int) -> Spot:
        return self.spots[f"{table.key}/row/{row}"]

    def _cells(self, table: Table) -> Iterator[Candidate]:
        verb = "is" if table.kind is TableKind.HUBS else "was"
        for row, (_, *cells) in enumerate(table.rows):
            for column, (measure, cell) in enumerate(zip(table.measures, cells, strict=True), start=1):
                holder = self._holder(table, row, column)
                question = f"What {verb} the {measure.noun} of {holder}{measure.in_unit}?"
                spots = (self._row(table, row),)
                yield Candidate(QuestionKind.TABLE_CELL, question, _number_answers(cell), spots)

    def _holder(self, table: Table, row: int, column: int) -> str:
        """Say whose value stands in a cell, and when: "the Brenoka division of ... in 2021"."""
        name = table.rows[row][0]
        match table.kind:
            case TableKind.YEARLY:
                return f"{self._unit(name)} in {table.header[column]}"
            case TableKind.HUBS:
                return f"the {name} {self.theme.hub} of {self.company}"
            case TableKind.QUARTERLY:
                return f"{self._unit(table.unit)} in the {_ORDINALS[row]} quarter of {self.year}"

    def _extremes(self, table: Table) -> Iterator[Candidate]:
        """Ask which row holds the largest or smallest value of a column; all values of a column differ."""
        names, spots = table.column(0), (self.spots[table.key],)
        for column in range(1, len(table.header)):
            operands = table.column(column)
            order = sorted(range(len(operands)), key=lambda row: to_decimal(operands[row]))
            for op, word, row in (
                ("row_of_largest", "highest", order[-1]),
                ("row_of_smallest", "lowest", order[0]),
            ):
                question, other_name = self._extreme(table, column, word, row)
                derivation = {"op": op, "operands": operands, "rows": names}
                answers = (names[row], other_name)
                yield Candidate(QuestionKind.COMPARISON, question, answers, spots, derivation=derivation)

    def _extreme(self, table: Table, column: int, word: str, row: int) -> tuple[str, str]:
        """Return the question for a row and another form of its answer."""
        theme, name, noun = self.theme, table.rows[row][0], table.measures[column - 1].noun
        match table.kind:
            case TableKind.YEARLY:
                year = table.header[column]
                question = f"Which {theme.unit} of {self.company} had the {word} {noun} in {year}?"
                return question, f"{name} {theme.unit}"
            case TableKind.HUBS:
                question = f"Which {theme.hub} of {self.company} has the {word} {noun}?"
                return question, f"{name} {theme.hub}"
            case TableKind.QUARTERLY:
                unit = self._unit(table.unit)
                question = f"In which quarter of {self.year} was the {noun} of {unit} {word}?"
                return question, f"{_ORDINALS[row]} quarter"

    def _changes(self, table: Table) -> Iterator[Candidate]:
        measure, years = table.measures[0], table.header
        for row, (name, *cells) in enumerate(table.rows):
            for column, operands in enumerate(pairwise(cells), start=1):
                before, after = map(to_decimal, operands)
                if before == after:
                    continue
                change = f"{'rise' if after > before else 'fall'} from {years[column]} to {years[column + 1]}"
                yield Candidate(
                    QuestionKind.COMPARISON,
                    f"By how much did the {measure.noun} of {self._unit(name)} {change}{measure.in_unit}?",
                    _number_answers(format_number(abs(after - before), measure.decimals)),
                    (self._row(table, row),),
                    derivation={"op": "difference", "operands": list(operands)},
                )

    def _sums(self, table: Table) -> Iterator[Candidate]:
        """Ask for the sum over two neighbouring rows, for quantities that add up."""
        measure, theme = table.measures[0], self.theme
        if measure.unit == "percent":
            return
        for row, (first, second) in enumerate(pairwise(table.rows)):
            units = f"the {first[0]} and {second[0]} {theme.units} of {self.company}"
            for year, *operands in zip(table.header[1:], first[1:], second[1:], strict=True):
                yield Candidate(
                    QuestionKind.COMPARISON,
                    f"What was the combined {measure.noun} of {units} in {year}{measure.in_unit}?",
                    _number_answers(format_number(sum(map(to_decimal, operands)), measure.decimals)),
                    (self._row(table, row), self._row(table, row + 1)),
                    derivation={"op": "sum", "operands": operands},
                )

    def _counts_above(self, table: Table) -> Iterator[Candidate]:
        measure, theme = table.measures[0], self.theme
        for column in range(1, len(table.header)):
            operands = table.column(column)
            values = sorted(map(to_decimal, operands))
            split = self.rng.randrange(len(values) - 1)
            threshold = format_number((values[split] + values[split + 1]) / 2, measure.decimals)
            where = f"the {measure.noun} in {table.header[column]} above {threshold}{measure.in_unit}"
            yield Candidate(
                QuestionKind.COUNT,
                f"For how many {theme.units} of {self.company} was {where}?",
                (str(sum(value > to_decimal(threshold) for value in values)),),
                (self.spots[table.key],),
                derivation={"op": "count_above", "operands": operands, "threshold": threshold},
            )

    def _count_rows(self, table: Table) -> Candidate:
        names, what = table.column(0), f"{self.theme.hubs} did {self.company}"
        question = f"How many {what} have in service at the end of {self.year}?"
        derivation = {"op": "count", "operands": names}
        spots = (self.spots[table.key],)
        return Candidate(QuestionKind.COUNT, question, (str(len(names)),), spots, derivation=derivation)


def _number_answers(printed: str) -> tuple[str, ...]:
    """Return a printed number, then the same without commas where that differs."""
    plain = printed.replace(",", "")
    return (printed,) if plain == printed else (printed, plain)


def _union(first: Spot, second: Spot) -> Spot:
    boxes = list(zip(first.box, second.box, strict=True))
    return Spot(first.page, (min(boxes[0]), min(boxes[1]), max(boxes[2]), max(boxes[3])))
