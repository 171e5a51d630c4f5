"""Questions about sentences, headings and charts, across two pages, and about what is not there."""

from __future__ import annotations

from collections.abc import Iterator

from docagent_rl.lab.synth.candidate import Candidate, Operation, Subject, number_answers
from docagent_rl.lab.synth.flowables import Spot
from docagent_rl.lab.synth.lexicon import PREMISES, STAFF
from docagent_rl.lab.synth.model import Chart, ChartKind, Prose, Table, TableKind
from docagent_rl.lab.synth.settings import QuestionKind
from docagent_rl.records.fields import EvidenceSource

ORDINALS = ("first", "second", "third", "fourth")


def text_candidates(subject: Subject) -> Iterator[Candidate]:
    """Everything there is to ask about a document apart from single tables."""
    for section in subject.rendered.sections:
        for block in section.blocks:
            if isinstance(block, Prose):
                yield from _facts(subject, block)
            elif isinstance(block, Chart):
                yield from _chart(subject, block)
    yield from _headings(subject)
    yield from _two_hops(subject)
    yield from _unanswerable(subject)


def _facts(subject: Subject, prose: Prose) -> Iterator[Candidate]:
    spot = subject.rendered.spot(prose.key)
    for fact in prose.facts:
        question = subject.rng.choice(fact.questions)
        answers = number_answers(fact.value)
        yield Candidate(QuestionKind.TEXT_FACT, question, answers, (spot,), (EvidenceSource.TEXT,))


def _chart(subject: Subject, chart: Chart) -> Iterator[Candidate]:
    spot = subject.rendered.spot(chart.key)
    if chart.values_in_caption:
        spot = _union(spot, subject.rendered.spot(f"{chart.key}/caption"))
    unit, year = subject.unit(chart.unit), subject.year
    for position, (label, value) in enumerate(zip(chart.labels, chart.values, strict=True)):
        if chart.kind is ChartKind.PIE:
            question = f"What share of staff time, in percent, did {unit} spend on {label.lower()} in {year}?"
        else:
            quarter = f"the {ORDINALS[position]} quarter of {year}"
            question = f"What was the {chart.measure.noun} of {unit} in {quarter}{chart.measure.in_unit}?"
        details = {"chart_kind": chart.kind.value, "chart_only": not chart.values_in_caption}
        answers = number_answers(value)
        yield Candidate(
            QuestionKind.CHART_VALUE, question, answers, (spot,), (EvidenceSource.CHART,), None, details
        )


def _headings(subject: Subject) -> Iterator[Candidate]:
    plan, seen = subject.rendered.plan, set()
    where = f"of the {plan.report} of {plan.company}"
    for section in subject.rendered.sections:
        spot = subject.rendered.spot(section.key)
        derivation = {"op": Operation.PAGE_OF.value, "operands": [section.title]}
        question = f'On which page {where} does the section "{section.title}" begin?'
        kind, source = QuestionKind.PAGE_INDEX, (EvidenceSource.LAYOUT,)
        yield Candidate(kind, question, (str(spot.page),), (spot,), source, derivation)
        if spot.page not in seen:  # sections come in the order of the page
            seen.add(spot.page)
            question = f"Which section heading comes first on page {spot.page} {where}?"
            yield Candidate(kind, question, (section.title,), (spot,), source)


def _two_hops(subject: Subject) -> Iterator[Candidate]:
    rendered, theme = subject.rendered, subject.theme
    blocks = [block for section in rendered.sections for block in section.blocks]
    hubs = next(block for block in blocks if isinstance(block, Table) and block.kind is TableKind.HUBS)
    rows = hubs.column(0)
    for unit in rendered.plan.units:
        first = rendered.spots.get(f"hub/{unit.name}")
        row = rows.index(unit.hub)
        second = rendered.spot(f"{hubs.key}/row/{row}")
        if first is None or first.page == second.page:
            continue
        clause = theme.hub_clause.format(unit=subject.unit(unit.name))
        for column, measure in enumerate(hubs.measures, start=1):
            question = f"What is the {measure.noun} of {clause}{measure.in_unit}?"
            answers = number_answers(hubs.rows[row][column])
            sources = (EvidenceSource.TEXT, EvidenceSource.TABLE)
            yield Candidate(
                QuestionKind.TWO_HOP, question, answers, (first, second), sources, None, {"bridge": unit.hub}
            )


def _unanswerable(subject: Subject) -> Iterator[Candidate]:
    for name in subject.rendered.plan.absent:
        words = {"unit": f"the {name} {subject.theme.unit}", "company": subject.company, "year": subject.year}
        questions = [
            subject.rng.choice(attribute.questions).format(**words) for attribute in STAFF + PREMISES
        ]
        questions += [
            f"What was the {measure.noun} of {subject.unit(name)} in {subject.year}{measure.in_unit}?"
            for measure in subject.theme.yearly
        ]
        for question in questions:
            yield Candidate(QuestionKind.UNANSWERABLE, question, (), (), (), None, {"absent": name})


def _union(first: Spot, second: Spot) -> Spot:
    boxes = list(zip(first.box, second.box, strict=True))
    return Spot(first.page, (min(boxes[0]), min(boxes[1]), max(boxes[2]), max(boxes[3])))
