from __future__ import annotations

from collections import Counter

import pytest

from proof.tasks.base import Part
from proof.tasks.mm_doc_r1 import ONE_HOP, TASK, TWO_HOP
from tests.examples.proof.small_task import SmallTask


@pytest.fixture(scope="module")
def small(tmp_path_factory, processor):
    return SmallTask(TASK, tmp_path_factory.mktemp("mm_doc_r1"), processor)


def test_who_follows_the_words_and_reads_the_page_is_paid_in_full(small):
    records = small.records(Part.SFT)
    assert Counter(record.extra["kind"] for record in records) == {ONE_HOP: 4, TWO_HOP: 4}
    assert len({record.question.rpartition(" ")[0] for record in records}) == 1  # asked in the same words
    for record in records:
        played = small.play(record)
        assert (played.reward, played.end) == (pytest.approx(2.0), "finished")
        assert played.metrics["turns"] == {ONE_HOP: 3, TWO_HOP: 4}[record.extra["kind"]]


def test_the_page_of_the_first_word_does_not_answer_a_question_of_two_hops(small):
    record = next(r for r in small.records(Part.SFT) if r.extra["kind"] == TWO_HOP)
    oracle = TASK.player(record)

    def first_page(trajectory):
        if len(trajectory.turns) != 1:
            return "<FINISH>" if trajectory.turns else oracle(trajectory)
        hit = trajectory.turns[0].info["effect"]["hits"][0]
        page = int(hit["page"].rpartition("#")[2])
        return f'<read>[{{"page_ids": [{page}], "query": "total"}}]</read>'

    played = small.play(record, first_page)
    assert (played.reward, played.metrics["pages_seen"]) == (0.0, 1)


def test_finishing_at_once_and_blank_documents_pay_nothing(small):
    for record in small.records(Part.HELD_OUT)[:2]:
        assert small.play(record, lambda trajectory: "<FINISH>").reward == 0.0
    for record in small.records(Part.BLANK)[:4]:
        played = small.play(record)
        assert (played.metrics["reward/correctness"], played.metrics["pages_found"]) == (0.0, 0)
