from __future__ import annotations

from collections import Counter

import pytest

from proof.tasks.base import Part
from proof.tasks.mm_doc_r1 import ONE_HOP, TASK, TWO_HOP
from tests.examples.proof.small_task import SmallTask


@pytest.fixture(scope="module")
def small(tmp_path_factory, processor):
    return SmallTask(TASK, tmp_path_factory.mktemp("mm_doc_r1"), processor, documents=4)


def test_who_follows_the_words_and_reads_the_page_is_paid_in_full(small):
    hops = {ONE_HOP: 3, TWO_HOP: 4}
    for record in small.records(Part.SFT):
        played = small.play(record)
        assert played.reward == pytest.approx(2.0)
        assert played.metrics["turns"] == hops[record.extra["kind"]]
        assert played.end == "finished"


def test_both_kinds_are_asked_for_in_the_same_words(small):
    kinds = Counter(record.extra["kind"] for record in small.records(Part.SFT))
    assert kinds == {ONE_HOP: 8, TWO_HOP: 8}
    assert {record.question.rpartition(" ")[0] for record in small.records(Part.SFT)} == {
        "What is the final total of"
    }


def test_the_page_of_the_first_word_does_not_answer_a_question_of_two_hops(small):
    record = next(r for r in small.records(Part.SFT) if r.extra["kind"] == TWO_HOP)
    oracle = TASK.player(record)

    def first_page(trajectory):
        if len(trajectory.turns) != 1:
            return "<FINISH>" if trajectory.turns else oracle(trajectory)
        hits = trajectory.turns[0].info["effect"]["hits"]
        pages = [int(hit["page"].rpartition("#")[2]) for hit in hits]
        return f'<read>[{{"page_ids": {pages[:1]}, "query": "total"}}]</read>'

    played = small.play(record, first_page)
    assert played.reward == 0.0
    assert played.metrics["pages_seen"] == 1


def test_whoever_finishes_at_once_is_paid_nothing(small):
    for record in small.records(Part.HELD_OUT):
        assert small.play(record, lambda trajectory: "<FINISH>").reward == 0.0


def test_blank_documents_answer_nothing(small):
    for record in small.records(Part.BLANK):
        played = small.play(record)
        assert played.metrics["reward/correctness"] == 0.0
        assert played.metrics["pages_found"] == 0


def test_the_ablation_estimates_by_grpo_without_the_deviation(small):
    recipe = small.compose(tuple(TASK.ablations["grpo"].overrides))
    assert recipe.algorithm.adv_estimator == "grpo"
    assert recipe.algorithm.norm_adv_by_std_in_grpo is False
    assert small.compose(()).algorithm.adv_estimator == "spo"
