from __future__ import annotations

from collections import Counter

import pytest

from docagent_rl.documents import DocumentStore, PageRef
from proof.tasks.base import Part
from proof.tasks.coloured import WHITE
from proof.tasks.doc_v_star import COLOURED, PAGES, TASK, first_turn, last_turn
from tests.examples.proof.small_task import SmallTask


@pytest.fixture(scope="module")
def small(tmp_path_factory, processor):
    return SmallTask(TASK, tmp_path_factory.mktemp("doc_v_star"), processor)


def test_who_fetches_the_page_of_the_colour_is_paid_in_full(small):
    for record in small.records(Part.SFT):
        played = small.play(record)
        assert played.reward == pytest.approx(1.0)
        assert played.metrics["fetch/page_recall"] == 1.0
        assert played.metrics["turns"] == 2


def test_the_overview_shows_every_page_of_a_document_at_a_sixteenth(small):
    played = small.play(small.records(Part.SFT)[0])
    sheets = [part["image"] for message in played.prompt for part in message["parts"] if "image" in part]
    assert len(sheets) == 1
    assert len(sheets[0]["tiles"]) == PAGES
    assert played.metrics["overview/cell_px"] == 28


def test_a_right_number_from_an_unseen_page_is_not_paid_in_full(small):
    record = small.records(Part.SFT)[0]
    other = record.evidence_pages[0] % PAGES + 1

    def write(trajectory):
        return first_turn(other) if not trajectory.turns else last_turn(other, record.answers[0])

    assert small.play(record, write).reward == pytest.approx(0.7)


def test_no_question_tells_its_page_or_number():
    records = [r for s in TASK.sheets(0) if s.part is Part.HELD_OUT for r in s.records()]
    for value in ((r.answers[0] for r in records), (r.evidence_pages[0] for r in records)):
        assert Counter(value).most_common(1)[0][1] < 0.2 * len(records)


def test_blank_pages_are_all_alike(small):
    store = DocumentStore(small.root / "store")
    blank, real = (
        {store.page(PageRef(f"{part.value}-0000", page)).image_hash for page in range(1, PAGES + 1)}
        for part in (Part.BLANK, Part.HELD_OUT)
    )
    assert len(blank) == 1
    assert len(real) == PAGES


def test_colours_of_a_document_differ():
    for sheet in TASK.sheets(0)[:20]:
        colours = [page.colour for page in sheet.pages if page.colour != WHITE]
        assert sorted(colours) == sorted(COLOURED)
        assert len(sheet.questions) == len(COLOURED)


def test_without_an_overview_the_script_knows_no_page(small):
    records = [r for s in TASK.sheets(0) if s.part is Part.SFT for r in s.records()]
    right = [first_turn(r.evidence_pages[0]) for r in records]
    guessed = [TASK.player(r, "no_overview")(_Nothing()) for r in records]
    hits = sum(a == b for a, b in zip(right, guessed, strict=True)) / len(records)
    assert 0.5 / PAGES < hits < 2 / PAGES
    small.use(tuple(TASK.ablations["no_overview"].overrides))
    try:
        played = small.play(small.records(Part.SFT)[0])
    finally:
        small.use(())
    assert played.metrics["overview/sheets"] == 0


def test_without_an_overview_the_script_reads_the_page_it_took(small):
    for record in small.records(Part.SFT):
        played = small.play(record, TASK.player(record, "no_overview"))
        page = int(played.turns[0].info["effect"]["pages"][0]["page"].rpartition("#")[2])
        assert record.extra["numbers"][page - 1] in played.turns[1].text


class _Nothing:
    turns = ()
