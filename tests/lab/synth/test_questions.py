"""Every answer is derived again from the finished PDF, without the code that made it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pypdfium2
import pytest

from docagent_rl.lab.synth.layout import Rendered
from docagent_rl.lab.synth.plan import DocumentPlan
from docagent_rl.lab.synth.questions import make_questions
from docagent_rl.lab.synth.settings import DocumentDifficulty, QuestionKind, SynthSettings
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.validation import validate_sample


class Reader:
    """A reader of a PDF that uses none of our code."""

    def __init__(self, pdf: bytes) -> None:
        self._pdf = pypdfium2.PdfDocument(pdf)
        self._texts = [page.get_textpage() for page in self._pdf]
        self.pages = [text.get_text_range() for text in self._texts]

    def inside(self, page: int, box: tuple[float, float, float, float]) -> str:
        width, height = self._pdf[page - 1].get_size()
        left, top, right, bottom = box
        corners = (left * width, (1 - bottom) * height, right * width, (1 - top) * height)
        return squeeze(self._texts[page - 1].get_text_bounded(*corners))

    def crop(self, page: int, box: tuple[float, float, float, float]) -> np.ndarray:
        image = np.asarray(self._pdf[page - 1].render(scale=1).to_pil().convert("L"))
        height, width = image.shape
        left, top, right, bottom = box
        return image[
            int(top * height) : int(bottom * height), int(left * width) : int(right * width)
        ]


@dataclass
class Asked:
    """A question, and the contents of its document."""

    sample: Sample
    plan: DocumentPlan
    reader: Reader

    @property
    def boxes(self) -> list[str]:
        """Return the texts of the evidence."""
        found = [(page, box) for page, boxes in self.sample.evidence_boxes.items() for box in boxes]
        return [self.reader.inside(page, box) for page, box in found]


@pytest.fixture(scope="module")
def asked(documents: list[Rendered], questions: dict[str, list[Sample]]) -> list[Asked]:
    readers = {
        rendered.plan.doc_id: (rendered.plan, Reader(rendered.pdf)) for rendered in documents
    }
    return [
        Asked(sample, *readers[doc_id])
        for doc_id, samples in questions.items()
        for sample in samples
    ]


def of_kind(asked: list[Asked], *kinds: QuestionKind) -> Iterator[Asked]:
    found = [each for each in asked if each.sample.extra["kind"] in kinds]
    assert found, f"no question of {kinds}"
    return iter(found)


def squeeze(text: str) -> str:
    return " ".join(text.replace("\ufffe", "-").split())


def stands_in(answer: str, text: str) -> bool:
    """Return whether a text contains a value as a whole: 1,120 does not contain 12."""
    return re.search(rf"(?<![\w.,]){re.escape(answer)}(?![\w]|[.,]\d)", text) is not None


def test_all_samples_are_well_formed_and_of_every_kind(asked):
    assert len({each.sample.question_id for each in asked}) == len(asked)
    answers: dict[str, tuple[str, ...]] = {}
    for each in asked:
        sample, pages = each.sample, len(each.reader.pages)
        assert validate_sample(sample, num_pages=pages) == []
        assert sample.extra["num_pages"] == pages
        assert Sample.from_json(sample.to_json()) == sample
        # no question has two answers
        assert answers.setdefault(sample.question, sample.answers) == sample.answers
    found = {(each.sample.extra["difficulty"], each.sample.extra["kind"]) for each in asked}
    assert found == {
        (str(difficulty), str(kind)) for difficulty in DocumentDifficulty for kind in QuestionKind
    }


def test_printed_answers_stand_inside_the_evidence_boxes(asked):
    for each in asked:
        sample = each.sample
        heading = sample.extra["kind"] == QuestionKind.PAGE_INDEX
        if sample.answerable and not heading and not sample.extra.get("chart_only"):
            assert any(stands_in(sample.answers[0], text) for text in each.boxes), sample


def test_evidence_names_the_unit_of_the_question(asked):
    for each in of_kind(
        asked, QuestionKind.TEXT_FACT, QuestionKind.TABLE_CELL, QuestionKind.TWO_HOP
    ):
        question = each.sample.question
        assert each.plan.company in question
        named = [unit.name for unit in each.plan.units if re.search(rf"\b{unit.name}\b", question)]
        if not named:  # a row of the table of hubs
            continue
        if (
            "quarter" in question
        ):  # the unit stands in the caption of the table, the row says Q1 to Q4
            assert named[0] in each.reader.pages[each.sample.evidence_pages[0] - 1]
        else:
            assert named[0] in " ".join(each.boxes), each.sample


def test_headings_are_where_the_questions_say(asked):
    for each in of_kind(asked, QuestionKind.PAGE_INDEX):
        (page,), (heading,) = each.sample.evidence_pages, each.boxes
        if f'"{heading}"' in each.sample.question:
            assert each.sample.answers == (str(page),)
        else:
            assert f"on page {page} " in each.sample.question
            assert each.sample.answers == (heading,)
            assert heading in squeeze(each.reader.pages[page - 1])


def test_two_hops_need_both_pages(asked):
    for each in of_kind(asked, QuestionKind.TWO_HOP):
        sample, bridge = each.sample, each.sample.extra["bridge"]
        assert (len(sample.evidence_pages), sample.extra["hops"]) == (2, 2)
        assert bridge not in sample.question
        assert all(stands_in(bridge, text) for text in each.boxes)
        # one box alone does not do: it lacks the answer or the link to the unit
        assert sum(stands_in(sample.answers[0], text) for text in each.boxes) == 1


def test_chart_only_values_are_in_the_picture_and_not_in_the_text(asked):
    for each in of_kind(asked, QuestionKind.CHART_VALUE):
        ((page, (box,)),) = each.sample.evidence_boxes.items()
        chart_only = each.sample.extra["chart_only"]
        assert chart_only == (each.sample.extra["difficulty"] == "hard")
        assert not chart_only or each.reader.inside(page, box) == ""
    crop = each.reader.crop(page, box)
    assert crop.std() > 10  # something is drawn there
    assert (crop > 250).mean() > 0.3


def test_unanswerable_questions_name_what_no_document_holds(asked):
    everything = " ".join({page for each in asked for page in each.reader.pages})
    for each in of_kind(asked, QuestionKind.UNANSWERABLE):
        sample = each.sample
        assert sample.extra["absent"] in sample.question
        assert sample.extra["absent"] not in everything
        assert (sample.answerable, sample.answers, sample.evidence_pages) == (False, (), ())


def test_a_few_questions_are_of_several_kinds(documents):
    for rendered in documents:
        samples = make_questions(rendered, SynthSettings(questions_per_document=6), Split.VAL)
        assert len(samples) == 6
        assert len({sample.extra["kind"] for sample in samples}) >= 3
        assert {sample.split for sample in samples} == {Split.VAL}
