from __future__ import annotations

from collections import Counter

import pytest

from proof.tasks.base import Part
from proof.tasks.coloured import WHITE
from proof.tasks.doc_v_star import COLOURED, PAGES, TASK, first_turn, last_turn
from tests.examples.proof.small_task import SmallTask


@pytest.fixture(scope="module")
def small(tmp_path_factory, processor):
    return SmallTask(TASK, tmp_path_factory.mktemp("doc_v_star"), processor, documents=1)


def drawn(part: Part):
    return [record for sheet in TASK.sheets(0) if sheet.part is part for record in sheet.records()]


def test_who_fetches_the_page_of_the_colour_is_paid_in_full(small):
    for record in small.records(Part.SFT):
        played = small.play(record)
        assert played.reward == pytest.approx(1.0)
        assert (played.metrics["fetch/page_recall"], played.metrics["turns"]) == (1.0, 2)
    # the overview shows every page of a document at a sixteenth
    (sheet,) = [part["image"] for message in played.prompt for part in message["parts"] if "image" in part]
    assert len(sheet["tiles"]) == PAGES
    assert played.metrics["overview/cell_px"] == 28


def test_a_right_number_from_an_unseen_page_is_not_paid_in_full(small):
    record = small.records(Part.SFT)[0]
    other = record.evidence_pages[0] % PAGES + 1
    turns = [first_turn(other), last_turn(other, record.answers[0])]
    assert small.play(record, lambda played: turns[len(played.turns)]).reward == pytest.approx(0.7)


def test_no_question_tells_its_page_or_number_and_colours_of_a_document_differ():
    records = drawn(Part.HELD_OUT)
    for value in ((r.answers[0] for r in records), (r.evidence_pages[0] for r in records)):
        assert Counter(value).most_common(1)[0][1] < 0.2 * len(records)
    for sheet in TASK.sheets(0)[:20]:
        colours = [page.colour for page in sheet.pages if page.colour != WHITE]
        assert sorted(colours) == sorted(COLOURED)
        assert len(sheet.questions) == len(COLOURED)
