from __future__ import annotations

from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval import Hit
from tests.systems.doc_v_star.play import answer, fetch, retrieve, shown, texts, turn

TIGHT = {"reserve_tokens": 500}


async def test_pages_that_leave_too_little_are_withheld(env_of, sample, play):
    """Each page is 962 tokens; the overview 810, the rest of the prompt about 700."""
    env = env_of(context_tokens=4700, **TIGHT)
    state = await play(env, sample(), [fetch("[3, 4, 5]"), answer(relevant="[3, 4]")])
    first, metrics = state.results[0], state.metrics
    assert shown(first) == [3, 4]
    assert "page 5." in texts(first.observation)
    assert "6 turns" in texts(first.observation)
    assert (first.info["effect"]["withheld"], first.info["faults"]) == ([5], [])
    assert state.terms.values["total"] == pytest.approx(1)
    assert (metrics["budget_cut"], metrics["pages_withheld"], metrics["pages_seen"]) == (1, 1, 2)


@pytest.mark.parametrize(
    ("last", "end"),
    [(retrieve("pagem4", ""), EndReason.CONTEXT_FULL), (answer(relevant="[3]"), EndReason.ANSWERED)],
)
async def test_when_no_page_fits_the_next_turn_is_the_last(env_of, sample, play, last, end):
    env = env_of(context_tokens=3700, **TIGHT)
    state = await play(env, sample(), [fetch("[3]"), retrieve("pagem4", ""), last, "never played"])
    assert [shown(result) for result in state.results[:2]] == [[3], []]
    text = texts(state.results[1].observation)
    assert "page 4." in text
    assert "turn 3 and your last" in text
    assert (len(state.results), state.results[-1].end) == (3, end)
    assert state.metrics["format_ok"] == 1
    assert state.terms.values["format"] == (end is EndReason.ANSWERED)


def test_an_overview_that_fills_the_context(env_of, sample):
    with pytest.raises(UserError, match=r"'q1'.*'M'.*context_tokens=1500"):
        env_of(context_tokens=1500, **TIGHT).opening(sample())


ABSTAINS = turn("<answer>Not answerable</answer>")
NOBODY_KNOWS = {"answers": (), "answerable": False, "evidence_pages": ()}
TWO = {"answers": ("blue", "red")}


@pytest.mark.parametrize(
    ("changes", "turns", "values"),
    [
        (NOBODY_KNOWS, [ABSTAINS], (1, 1, 1, 1)),
        (NOBODY_KNOWS, [fetch("[1]"), answer("Not answerable", "[1]")], (1, 0, 1, 0.7)),
        ({}, [ABSTAINS], (0, 0, 1, 0.1)),
        ({**TWO, "answer_format": "list/extractive"}, [turn("<answer>red; blue</answer>")], (1, 0, 1, 0.7)),
        (TWO, [turn("<answer>red</answer>")], (1, 0, 1, 0.7)),
    ],
)
async def test_forms_of_gold(env_of, sample, play, changes, turns, values):
    state = await play(env_of(), sample(**changes), turns)
    assert tuple(state.terms.values.values()) == pytest.approx(values)


@pytest.mark.parametrize("settings", [{"validate": True}, {"allow_unknown_evidence": True}])
async def test_unknown_evidence(env_of, sample, play, settings):
    unknown = sample(evidence_pages=())
    with pytest.raises(UserError, match=r"'q1'.*allow_unknown_evidence"):
        await env_of().reset(unknown)
    state = await play(env_of(**settings), unknown, [fetch("[3]"), answer()])
    assert [page["gold"] for page in state.results[0].info["effect"]["pages"]] == [False]
    assert state.terms.values == {"answer": 1, "evidence": 0, "format": 1, "total": pytest.approx(0.7)}
    assert state.metrics["evidence_known"] == 0
    unmeasured = {"page_f1", "page_precision", "page_recall", "retrieval_recall"}
    assert not unmeasured & set(state.metrics)


async def test_a_window_of_a_document(env_of, sample, play):
    window = sample(evidence_pages=(5,), extra={"window": [4, 6]})
    turns = [retrieve("everypage"), fetch("[3]", ""), answer(relevant="[5]")]
    state = await play(env_of(retrieval={"pages": 8}), window, turns)
    assert "3 pages, numbers 4 to 6" in texts(state.prompt)
    assert [label.text for label in state.prompt.images[0].labels] == ["4", "5", "6"]
    assert sorted(shown(state.results[0])) == [4, 5, 6]
    assert state.results[1].info["faults"] == ["fetch_pages"]
    assert state.terms.values["evidence"] == 1
    assert len((await env_of(use_window=False).reset(window)).images[0].pages) == 8


async def test_evidence_outside_of_the_window_is_not_asked_for(env_of, sample, play):
    """The best play reaches everything; a question whose evidence lies outside altogether is not trained."""
    partly = sample(evidence_pages=(2, 5), extra={"window": [4, 6]})
    state = await play(env_of(), partly, [fetch("[5]"), answer(relevant="[5]")])
    assert state.terms.values == pytest.approx({"answer": 1, "evidence": 1, "format": 1, "total": 1})
    assert (state.metrics["retrieval_recall"], state.metrics["page_f1"]) == (1, 1)
    assert state.metrics["evidence_dropped"] == 1
    outside = sample(evidence_pages=(1, 2), extra={"window": [4, 6]})
    with pytest.raises(UserError, match=r"'q1'.*4 to 6"):
        await env_of().reset(outside)
    validated = await play(env_of(validate=True), outside, [turn("<answer>blue</answer>")])
    assert (validated.metrics["evidence_known"], validated.metrics["evidence_dropped"]) == (0, 2)
    assert "page_f1" not in validated.metrics
    whole = await play(env_of(use_window=False), partly, [fetch("[2, 5]"), answer(relevant="[2, 5]")])
    assert whole.terms.values["evidence"] == 1


WINDOW = r"'q1'.*extra\.window.*1 to 8"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"extra": {"window": w}}, WINDOW) for w in ([4], [6, 4], [0, 3], [4, 9], "4-6", [True, 3])),
        ({"evidence_pages": (9,)}, "'q1'.*9.*'M'"),
        ({"extra": {"page_ids": ["M#3", "K#1"]}}, "'q1'.*'K'"),
        ({"answers": (), "answerable": None}, "'q1'"),
    ],
)
def test_questions_that_cannot_be_played(env_of, sample, changes, message):
    with pytest.raises(UserError, match=message):
        env_of().opening(sample(**changes))


class Stubborn:
    """A retriever that does not care what it is told."""

    def search(self, queries, **_):
        return [[Hit(PageRef(doc_id, page), 1.0) for doc_id in "KM" for page in (1, 1, 2, 3)]]


async def test_hits_of_other_documents_and_repeated_hits_are_left_out(env_of, services, sample, play):
    env = env_of(services=replace(services, retriever=RetrieverService(Stubborn())), retrieval={"pages": 2})
    state = await play(env, sample(), [retrieve("a"), *[retrieve("a", "")] * 2])
    assert [shown(result) for result in state.results] == [[1, 2], [3], []]
    assert [page["rank"] for page in state.results[0].info["effect"]["pages"]] == [5, 7]
    assert {image.page.doc_id for image in state.results[0].observation.images} == {"M"}
