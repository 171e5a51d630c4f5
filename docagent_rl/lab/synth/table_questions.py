"""Questions about single tables: cells, comparisons, sums and counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from docagent_rl.lab.synth.candidate import (
    Candidate,
    Operation,
    Subject,
    number_answers,
    to_decimal,
)
from docagent_rl.lab.synth.facts import format_number
from docagent_rl.lab.synth.model import Measure, Table, TableKind
from docagent_rl.lab.synth.settings import QuestionKind
from docagent_rl.lab.synth.text_questions import ORDINALS
from docagent_rl.records.fields import EvidenceSource

_TABLE = (EvidenceSource.TABLE,)


def table_candidates(subject: Subject) -> Iterator[Candidate]:
    """Everything there is to ask about the tables of a document."""
    for section in subject.rendered.sections:
        for table in section.blocks:
            if isinstance(table, Table):
                yield from _cells(subject, table)
                yield from _extremes(subject, table)
                if table.kind is TableKind.YEARLY:
                    yield from _changes(subject, table)
                    yield from _sums(subject, table)
                    yield from _counts_above(subject, table)
                elif table.kind is TableKind.HUBS:
                    yield _count_rows(subject, table)


def _measure(table: Table, column: int) -> Measure:
    return table.measures[0] if table.kind is TableKind.YEARLY else table.measures[column - 1]


def _holder(subject: Subject, table: Table, row: int, column: int) -> str:
    """Whose value stands in a cell, and when: "the Brenoka division of ... in 2021"."""
    name = table.rows[row][0]
    if table.kind is TableKind.YEARLY:
        return f"{subject.unit(name)} in {table.header[column]}"
    if table.kind is TableKind.HUBS:
        return f"the {name} {subject.theme.hub} of {subject.company}"
    return f"{subject.unit(table.unit)} in the {ORDINALS[row]} quarter of {subject.year}"


def _cells(subject: Subject, table: Table) -> Iterator[Candidate]:
    verb = "is" if table.kind is TableKind.HUBS else "was"
    for row, cells in enumerate(table.rows):
        spot = subject.rendered.spot(f"{table.key}/row/{row}")
        for column in range(1, len(cells)):
            measure, holder = _measure(table, column), _holder(subject, table, row, column)
            question = f"What {verb} the {measure.noun} of {holder}{measure.in_unit}?"
            yield Candidate(QuestionKind.TABLE_CELL, question, number_answers(cells[column]), (spot,), _TABLE)


def _extremes(subject: Subject, table: Table) -> Iterator[Candidate]:
    """Which row holds the largest or smallest value of a column; values of a column are all different."""
    spot = subject.rendered.spot(table.key)
    for column in range(1, len(table.header)):
        operands = table.column(column)
        order = sorted(range(len(operands)), key=lambda row: to_decimal(operands[row]))
        for operation, word, row in (
            (Operation.ROW_OF_LARGEST, "highest", order[-1]),
            (Operation.ROW_OF_SMALLEST, "lowest", order[0]),
        ):
            name, noun = table.rows[row][0], _measure(table, column).noun
            if table.kind is TableKind.YEARLY:
                question = (
                    f"Which {subject.theme.unit} of {subject.company} had the {word} {noun} in "
                    f"{table.header[column]}?"
                )
                answers = (name, f"{name} {subject.theme.unit}")
            elif table.kind is TableKind.HUBS:
                question = f"Which {subject.theme.hub} of {subject.company} has the {word} {noun}?"
                answers = (name, f"{name} {subject.theme.hub}")
            else:
                unit = subject.unit(table.unit)
                question = f"In which quarter of {subject.year} was the {noun} of {unit} {word}?"
                answers = (name, f"{ORDINALS[row]} quarter")
            derivation = {"op": operation.value, "operands": operands, "rows": table.column(0)}
            yield Candidate(QuestionKind.COMPARISON, question, answers, (spot,), _TABLE, derivation)


def _changes(subject: Subject, table: Table) -> Iterator[Candidate]:
    measure = table.measures[0]
    for row, cells in enumerate(table.rows):
        spot = subject.rendered.spot(f"{table.key}/row/{row}")
        for column, (before, after) in enumerate(pairwise(cells[1:]), start=1):
            difference = to_decimal(after) - to_decimal(before)
            if not difference:
                continue
            verb = "rise" if difference > 0 else "fall"
            years = f"from {table.header[column]} to {table.header[column + 1]}"
            question = (
                f"By how much did the {measure.noun} of {subject.unit(cells[0])} {verb} {years}"
                f"{measure.in_unit}?"
            )
            answers = number_answers(format_number(abs(difference), measure.decimals))
            derivation = {"op": Operation.DIFFERENCE.value, "operands": [before, after]}
            yield Candidate(QuestionKind.COMPARISON, question, answers, (spot,), _TABLE, derivation)


def _sums(subject: Subject, table: Table) -> Iterator[Candidate]:
    """The sum over two neighbouring rows, for quantities that add up."""
    measure, theme = table.measures[0], subject.theme
    if measure.unit == "percent":
        return
    for row, (first, second) in enumerate(pairwise(table.rows)):
        spots = tuple(subject.rendered.spot(f"{table.key}/row/{index}") for index in (row, row + 1))
        for column in range(1, len(first)):
            question = (
                f"What was the combined {measure.noun} of the {first[0]} and {second[0]} {theme.units} of "
                f"{subject.company} in {table.header[column]}{measure.in_unit}?"
            )
            operands = [first[column], second[column]]
            answers = number_answers(format_number(sum(map(to_decimal, operands)), measure.decimals))
            derivation = {"op": Operation.SUM.value, "operands": operands}
            yield Candidate(QuestionKind.COMPARISON, question, answers, spots, _TABLE, derivation)


def _counts_above(subject: Subject, table: Table) -> Iterator[Candidate]:
    measure, spot = table.measures[0], subject.rendered.spot(table.key)
    for column in range(1, len(table.header)):
        operands = table.column(column)
        values = sorted(map(to_decimal, operands))
        split = subject.rng.randrange(len(values) - 1)
        threshold = format_number((values[split] + values[split + 1]) / 2, measure.decimals)
        count = sum(value > to_decimal(threshold) for value in values)
        question = (
            f"For how many {subject.theme.units} of {subject.company} was the {measure.noun} in "
            f"{table.header[column]} above {threshold}{measure.in_unit}?"
        )
        derivation = {"op": Operation.COUNT_ABOVE.value, "operands": operands, "threshold": threshold}
        yield Candidate(QuestionKind.COUNT, question, (str(count),), (spot,), _TABLE, derivation)


def _count_rows(subject: Subject, table: Table) -> Candidate:
    operands = table.column(0)
    question = (
        f"How many {subject.theme.hubs} did {subject.company} have in service at the end of {subject.year}?"
    )
    derivation = {"op": Operation.COUNT.value, "operands": operands}
    spot = subject.rendered.spot(table.key)
    return Candidate(QuestionKind.COUNT, question, (str(len(operands)),), (spot,), _TABLE, derivation)
