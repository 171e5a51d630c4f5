from __future__ import annotations

from collections import Counter

import pytest

from proof.tasks.base import Part
from proof.tasks.unidoc_rl import CANDIDATES, TASK, shown_pages
from tests.examples.proof.small_task import SmallTask


@pytest.fixture(scope="module")
def small(tmp_path_factory, processor):
    return SmallTask(TASK, tmp_path_factory.mktemp("unidoc_rl"), processor, documents=4)


def test_who_selects_magnifies_and_answers_is_paid_in_full_but_for_the_rank(small):
    selected = set()
    for record in small.records(Part.SFT):
        played = small.play(record)
        terms = {name: played.metrics[f"reward/{name}"] for name in ("select", "roi", "format", "outcome")}
        assert terms == dict.fromkeys(terms, 1.0)
        assert played.reward == pytest.approx(0.9 + 0.1 * played.metrics["reward/search_ndcg"])
        assert played.metrics["crops"] == 1
        selected.add(played.turns[1].text)
    # any of the candidates may be right
    assert selected == {f"<select>{index}</select>" for index in range(CANDIDATES)}
    # a magnified quarter has twice the pixels
    crop = played.turns[2].info["effect"]
    assert (crop["kind"], [box[2] - box[0] for box in crop["scored"]]) == ("crop", [0.5])
    assert played.metrics["image_tokens"] == 5 * 16


def test_a_wrong_selection_and_a_wrong_box_cost_what_the_dense_rewards_say(small):
    record = small.records(Part.SFT)[0]
    oracle = TASK.player(record)

    def other_page(trajectory):
        if len(trajectory.turns) == 1:
            return f"<select>{(shown_pages(trajectory).index(record.evidence_pages[0]) + 1) % 3}</select>"
        return oracle(trajectory)

    def whole_page(trajectory):
        return "<bbox>[[0, 0, 112, 112]]</bbox>" if len(trajectory.turns) == 2 else oracle(trajectory)

    full = small.play(record).reward
    assert small.play(record, other_page).reward == pytest.approx(full - 0.2)
    assert small.play(record, whole_page).reward == pytest.approx(full - 0.075)


def test_no_question_tells_its_number():
    records = [r for s in TASK.sheets(0) if s.part is Part.HELD_OUT for r in s.records()]
    assert Counter(r.answers[0] for r in records).most_common(1)[0][1] < 0.06 * len(records)
