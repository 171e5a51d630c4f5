"""Numbers of questions that have nothing to find: left out, never 0 in an average."""

from __future__ import annotations

import pytest

from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.systems import get_system
from docagent_rl.training.trainer.summary import summarise
from tests.systems.alden import play as alden_play
from tests.systems.doc_v_star import play as doc_v_star_play

UNKNOWN = {"doc_v_star": "allow_unknown_evidence", "mm_doc_r1": None}
TURNS = {
    "alden": [alden_play.search("pagek3"), alden_play.answer("blue")],
    "doc_v_star": [
        doc_v_star_play.retrieve("pagek3"),
        doc_v_star_play.fetch("[4]", "[3]"),
        doc_v_star_play.answer(),
    ],
    "mm_doc_r1": ['<read>[{"page_ids": [3], "query": "colour"}]</read>', "<FINISH>"],
    "unidoc_rl": [
        "<search>pagek3</search>",
        "<select>0</select>",
        "<information>blue</information><answer>blue</answer>",
    ],
    "vrag_rl": ["<search>pagek3</search>", "<answer>blue</answer>"],
}
ABOUT_GOLD = {
    "alden": {"retrieval_recall", "retrieval_precision", "retrieval_f1"},
    "doc_v_star": {"retrieval_recall", "page_recall", "page_precision", "page_f1",
                   "retrieval/page_recall", "retrieval/page_precision", "retrieval/page_f1",
                   "fetch/page_recall", "fetch/page_precision", "fetch/page_f1"},
    "mm_doc_r1": {"retrieval_recall"},
    "unidoc_rl": {"retrieval_recall", "recall_first", "recall_selected", "retrieval_ndcg"},
    "vrag_rl": {"retrieval_recall", "retrieval_ndcg"},
}  # fmt: skip
NO_GOLD = [{"answers": (), "answerable": False, "evidence_pages": ()}, {"evidence_pages": ()}]


@pytest.mark.parametrize("changes", NO_GOLD)
@pytest.mark.parametrize("system", sorted(TURNS))
async def test_trajectories_without_gold_are_left_out_of_averages(
    system, changes, services, make_sample, play
):
    allowed = UNKNOWN.get(system, "allow_empty_gold")
    settings = {allowed: True} if allowed else {}

    async def metrics_of(**question):
        env = get_system(system).make_env(settings, services)
        return (await play(env, make_sample(extra={}, **question), TURNS[system])).metrics

    found, nothing = await metrics_of(evidence_pages=(3, 4)), await metrics_of(**changes)
    assert ABOUT_GOLD[system] <= set(found)
    assert not ABOUT_GOLD[system] & set(nothing)
    made = [
        TrajectoryDigest.of(Trajectory("u", number, 1, "val", {"question_id": "q"}, "any", metrics=metrics))
        for number, metrics in enumerate((found, nothing, nothing))
    ]
    numbers = summarise(made)
    for name in ABOUT_GOLD[system]:
        assert numbers[f"docagent/{name}"] == found[name] > 0
