"""Every answer is derived again from the finished PDF, with no help from the code that made it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pypdfium2
import pytest

from docagent_rl.records.fields import Split
from docagent_rl.records.record import Record, validate_record
from docagent_rl.synth.layout import Rendered
from docagent_rl.synth.questions import make_questions
from docagent_rl.synth.settings import Difficulty, QuestionKind, SynthSettings


class Reader:
    """Reads a PDF as a third party would."""

    def __init__(self, pdf: bytes) -> None:
        self._pdf = pypdfium2.PdfDocument(pdf)
        self.num_pages = len(self._pdf)
        self.pages = [page.get_textpage().get_text_range() for page in self._pdf]

    def inside(self, page: int, box: tuple[float, float, float, float]) -> str:
        source = self._pdf[page - 1]
        width, height = source.get_size()
        left, top, right, bottom = box
        text = source.get_textpage().get_text_bounded(
            left * width, (1 - bottom) * height, right * width, (1 - top) * height
        )
        return squeeze(text)

    def crop(self, page: int, box: tuple[float, float, float, float]) -> np.ndarray:
        image = np.asarray(self._pdf[page - 1].render(scale=1).to_pil().convert("L"))
        height, width = image.shape
        left, top, right, bottom = box
        return image[int(top * height) : int(bottom * height), int(left * width) : int(right * width)]

    def evidence(self, record: Record) -> list[str]:
        return [self.inside(page, box) for page, boxes in record.evidence_boxes.items() for box in boxes]


def squeeze(text: str) -> str:
    return " ".join(text.replace("\ufffe", "-").split())


def stands_in(answer: str, text: str) -> bool:
    """As a whole: 12 does not stand in 1,120."""
    return re.search(rf"(?<![\w.,]){re.escape(answer)}(?![\w]|[.,]\d)", text) is not None


def number(printed: str) -> Decimal:
    return Decimal(printed.replace(",", ""))


@pytest.fixture(scope="module")
def readers(documents: list[Rendered]) -> dict[str, Reader]:
    return {rendered.plan.doc_id: Reader(rendered.pdf) for rendered in documents}


def of_kind(questions: dict[str, list[Record]], *kinds: QuestionKind) -> Iterator[Record]:
    found = [record for records in questions.values() for record in records if record.extra["kind"] in kinds]
    assert found, f"no question of {kinds}"
    return iter(found)


def test_all_records_are_well_formed(questions: dict[str, list[Record]], readers: dict[str, Reader]) -> None:
    for doc_id, records in questions.items():
        assert len({record.question_id for record in records}) == len(records)
        for record in records:
            assert validate_record(record, num_pages=readers[doc_id].num_pages) == []
            assert record.extra["num_pages"] == readers[doc_id].num_pages
            assert Record.from_json(record.to_json()) == record


def test_no_question_has_two_answers(questions: dict[str, list[Record]]) -> None:
    answers: dict[str, tuple[str, ...]] = {}
    for record in (record for records in questions.values() for record in records):
        assert answers.setdefault(record.question, record.answers) == record.answers


def test_every_kind_and_difficulty_is_there(questions: dict[str, list[Record]]) -> None:
    found = {
        (record.extra["difficulty"], record.extra["kind"])
        for records in questions.values()
        for record in records
    }
    assert found == {(str(difficulty), str(kind)) for difficulty in Difficulty for kind in QuestionKind}


def test_printed_answers_stand_inside_the_evidence_boxes(
    questions: dict[str, list[Record]], readers: dict[str, Reader]
) -> None:
    for record in of_kind(questions, *QuestionKind):
        if record.answerable and not record.extra["derivation"] and not record.extra.get("chart_only"):
            texts = readers[record.doc_id].evidence(record)
            assert any(stands_in(record.answers[0], text) for text in texts), (record, texts)


def test_evidence_names_the_unit_of_the_question(
    questions: dict[str, list[Record]], readers: dict[str, Reader], documents: list[Rendered]
) -> None:
    plans = {rendered.plan.doc_id: rendered.plan for rendered in documents}
    for record in of_kind(questions, QuestionKind.TEXT_FACT, QuestionKind.TABLE_CELL, QuestionKind.TWO_HOP):
        plan, reader = plans[record.doc_id], readers[record.doc_id]
        assert plan.company in record.question
        named = [unit.name for unit in plan.units if re.search(rf"\b{unit.name}\b", record.question)]
        if not named:  # a row of the table of hubs
            continue
        if "quarter" in record.question:  # the unit stands in the caption of the table, the row says Q1 to Q4
            assert named[0] in reader.pages[record.evidence_pages[0] - 1]
        else:
            assert named[0] in " ".join(reader.evidence(record)), record


def test_derived_answers_follow_from_operands_in_the_boxes(
    questions: dict[str, list[Record]], readers: dict[str, Reader]
) -> None:
    seen = set()
    for record in of_kind(questions, *QuestionKind):
        derivation = record.extra["derivation"]
        if derivation is None:
            continue
        operands, text = derivation["operands"], " ".join(readers[record.doc_id].evidence(record))
        assert all(stands_in(operand, text) for operand in operands), (record, text)
        seen.add(derivation["op"])
        match derivation["op"]:
            case "page_of":
                assert record.answers == (str(record.evidence_pages[0]),)
            case "row_of_largest" | "row_of_smallest":
                pick = max if derivation["op"] == "row_of_largest" else min
                best = pick(operands, key=number)
                assert operands.count(best) == 1
                assert record.answers[0] == derivation["rows"][operands.index(best)]
                assert stands_in(record.answers[0], text)
            case "difference":
                first, second = map(number, operands)
                assert number(record.answers[0]) == abs(second - first)
                assert (" rise " in record.question) == (second > first)
            case "sum":
                assert number(record.answers[0]) == sum(map(number, operands))
            case "count_above":
                above = [operand for operand in operands if number(operand) > number(derivation["threshold"])]
                assert record.answers == (str(len(above)),)
                assert derivation["threshold"] in record.question
                assert 0 < len(above) < len(operands)
            case "count":
                assert record.answers == (str(len(operands)),)
    assert len(seen) == 7


def test_row_boxes_hold_one_row(
    questions: dict[str, list[Record]], readers: dict[str, Reader], documents: list[Rendered]
) -> None:
    units = {rendered.plan.doc_id: [unit.name for unit in rendered.plan.units] for rendered in documents}
    for record in of_kind(questions, QuestionKind.TABLE_CELL):
        (text,) = readers[record.doc_id].evidence(record)
        first, *cells = text.split()
        assert len(cells) in (3, 4), text
        assert all(re.fullmatch(r"[\d.,]+", cell) for cell in cells)
        assert first in units[record.doc_id] or first.startswith("Q") or first in record.question


def test_table_wide_boxes_hold_the_whole_column(
    questions: dict[str, list[Record]], readers: dict[str, Reader]
) -> None:
    for record in of_kind(questions, QuestionKind.COUNT):
        if record.extra["derivation"]["op"] == "count_above":
            (text,) = readers[record.doc_id].evidence(record)
            year = re.search(r" in (\d{4}) above", record.question).group(1)
            header = re.search(r"[A-Za-z ]+ ((?:\d{4} ?)+)", text).group(1).split()[:4]
            names = "|".join(map(re.escape, set(re.findall(r"[A-Z][a-z]+", text))))
            rows = re.findall(rf"(?:{names}) ([\d.,]+ [\d.,]+ [\d.,]+ [\d.,]+)", text.split(header[-1], 1)[1])
            column = [row.split()[header.index(year)] for row in rows]
            threshold = number(record.extra["derivation"]["threshold"])
            assert sum(number(cell) > threshold for cell in column) == int(record.answers[0]), text


def test_headings_are_where_the_questions_say(
    questions: dict[str, list[Record]], readers: dict[str, Reader]
) -> None:
    for record in of_kind(questions, QuestionKind.PAGE_INDEX):
        (page,), (heading,) = record.evidence_pages, readers[record.doc_id].evidence(record)
        if record.extra["derivation"]:
            assert f'"{heading}"' in record.question
        else:
            assert f"on page {page} " in record.question
            assert squeeze(readers[record.doc_id].pages[page - 1]).index(heading) >= 0


def test_two_hops_need_both_pages(questions: dict[str, list[Record]], readers: dict[str, Reader]) -> None:
    for record in of_kind(questions, QuestionKind.TWO_HOP):
        assert len(record.evidence_pages) == 2
        assert record.extra["hops"] == 2
        bridge = record.extra["bridge"]
        assert bridge not in record.question
        texts = readers[record.doc_id].evidence(record)
        assert all(stands_in(bridge, text) for text in texts)
        # one box alone does not do: it lacks the answer or the link to the unit
        assert sum(stands_in(record.answers[0], text) for text in texts) == 1


def test_chart_only_values_are_in_the_picture_and_not_in_the_text(
    questions: dict[str, list[Record]], readers: dict[str, Reader]
) -> None:
    for record in of_kind(questions, QuestionKind.CHART_VALUE):
        ((page, (box,)),) = record.evidence_boxes.items()
        assert record.extra["chart_only"] == (record.extra["difficulty"] == "hard")
        if record.extra["chart_only"]:
            assert readers[record.doc_id].inside(page, box) == ""
    crop = readers[record.doc_id].crop(page, box)
    assert crop.std() > 10  # something is drawn there
    assert (crop > 250).mean() > 0.3


def test_unanswerable_questions_name_what_no_document_holds(
    questions: dict[str, list[Record]], readers: dict[str, Reader]
) -> None:
    everything = " ".join(page for reader in readers.values() for page in reader.pages)
    for record in of_kind(questions, QuestionKind.UNANSWERABLE):
        assert record.extra["absent"] in record.question
        assert record.extra["absent"] not in everything
        assert (record.answerable, record.answers, record.evidence_pages) == (False, (), ())


def test_gold_value_has_the_type_of_the_answer_format(questions: dict[str, list[Record]]) -> None:
    types = {"Int": int, "Float": float, "Str": str, "None": type(None)}
    for record in of_kind(questions, *QuestionKind):
        assert type(record.extra["gold"]) is types[record.answer_format]
        if record.answers:
            plain = record.answers[-1].replace(",", "").rstrip("%")
            assert record.answer_format == "Str" or float(plain) == record.extra["gold"]


def test_a_few_questions_are_of_several_kinds(documents: list[Rendered]) -> None:
    for rendered in documents:
        records = make_questions(rendered, SynthSettings(questions_per_document=6), Split.VAL)
        assert len(records) == 6
        assert len({record.extra["kind"] for record in records}) >= 3
        assert {record.split for record in records} == {Split.VAL}
