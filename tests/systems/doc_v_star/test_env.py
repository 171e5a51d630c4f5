"""The observations, memory and rewards of Doc-V*'s trajectories; `test_env_edges.py` covers limits
and unusual questions.
"""

import itertools
from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval import Hit
from tests.systems.doc_v_star.play import answer, fetch, retrieve, shown, texts, turn


async def test_pages_come_by_rank_with_their_numbers(env_of, sample, play):
    state = await play(
        env_of(retrieval={"pages": 3}), sample(), [retrieve("everypage pagem7 pagem5")]
    )
    (result,) = state.results
    numbers = shown(result)
    assert len(numbers) == 3
    assert set(numbers[:2]) == {5, 7}
    parts = result.observation.messages[0].parts
    assert [part.text.strip() for part in parts[:6:2]] == [f"Page {number}:" for number in numbers]
    assert all(isinstance(part.image, ImageRef) for part in parts[1:6:2])
    assert parts[1].image.size == (1024, 724)
    effect = result.record.effect.to_dict()
    assert [page["rank"] for page in effect["pages"]] == [1, 2, 3]
    assert effect["pages"][0]["score"] > 0
    assert (effect["cut_query"], state.rewards) == (False, [0.0])


async def test_only_unvisited_pages_are_retrieved(env_of, sample, play):
    turns = [retrieve("everypage"), *[retrieve("everypage", "")] * 3]
    state = await play(env_of(retrieval={"pages": 3}), sample(), turns)
    seen = [shown(result) for result in state.results]
    assert [len(pages) for pages in seen] == [3, 3, 2, 0]
    assert sorted(itertools.chain(*seen)) == list(range(1, 9))
    assert state.results[3].record.effect.to_dict() == {"kind": "no_new_page", "hits": 0}
    assert (state.metrics["pages_seen"], state.metrics["format_ok"]) == (8, 1)


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        # one page for every ten of the document
        ("pagem7 everypage", [7]),
        # long queries are cut
        ("x " * 300 + "pagem7", []),
        ("pagem7 " + "x " * 300, [7]),
    ],
)
async def test_queries(env_of, sample, play, query, pages):
    state = await play(env_of(), sample(), [retrieve(query)])
    assert shown(state.results[0]) == pages
    assert (state.metrics["retrieval/calls"], state.metrics["format_ok"]) == (1, 1)
    assert state.results[0].record.effect.to_dict().get("cut_query", False) is (
        len(query) > 512 and bool(pages)
    )


async def test_pages_by_number(env_of, sample, play):
    """Distinct pages are shown in the requested order; a nonexistent page is a fault, a surplus
    page is not.
    """
    wanted = [
        "[7, 3, 7]",
        "3, 5, 7",
        "[99, 4, 0, -1]",
        "[6, x]",
        "[1 2 3 4 5 6]",
        str(list(range(100, 200))),
    ]
    turns = [fetch(pages, "" if number else None) for number, pages in enumerate(wanted)]
    state = await play(env_of(), sample(), turns)
    assert [shown(result) for result in state.results] == [[7, 3], [5], [4], [6], [1, 2], []]
    assert [len(result.record.to_dict()["faults"]) for result in state.results] == [
        0,
        0,
        1,
        1,
        0,
        1,
    ]
    assert all(result.record.valid for result in state.results)
    effects = [result.record.effect.to_dict() for result in state.results]
    assert [effect["visited"] for effect in effects] == [[], [3, 7], [], [], [3, 4], []]
    assert [effect["surplus"] for effect in effects] == [[], [], [], [], [5, 6], []]
    assert [effect["missing"] for effect in effects[:5]] == [[], [], [99, 0, -1], [], []]
    assert [page["gold"] for effect in effects[:3] for page in effect["pages"]] == [
        False,
        True,
        False,
        True,
    ]
    said = [texts(result.observation) for result in state.results]
    assert said[1].index("Page 3 was") < said[1].index("Page 5:") < said[1].index("Page 7 was")
    assert "after turn 1" in said[1]
    assert "99, 0, -1." in said[2]
    assert "5, 6." in said[4]
    # notes name the first few pages only
    assert "108, 109 and 90 more." in said[5]
    metrics = state.metrics
    assert (metrics["fetch/calls"], metrics["fetch/pages"], metrics["fetch/evidence_pages"]) == (
        6,
        7,
        2,
    )
    assert (metrics["retrieval/used"], metrics["fault/fetch_pages"], metrics["format_ok"]) == (
        0,
        3,
        0,
    )


async def test_working_memory(env_of, sample, play):
    turns = [
        retrieve("pagem3", summary="  net margin on page 3 "),
        "nothing",
        retrieve("pagem4", "[3]", summary="x" * 2000),
        retrieve("pagem5", ""),
    ]
    state = await play(env_of(), sample(), turns)
    first, second, third, fourth = (texts(result.observation) for result in state.results)
    assert "Turn 1: net margin on page 3\n" in first
    assert "Turn 1: net margin on page 3\n" in second
    assert "Turn 2:" not in second
    assert "Turn 3: " + "x" * 1499 + "\N{HORIZONTAL ELLIPSIS}" in third
    assert fourth.index("Turn 1:") < fourth.index("Turn 3:") < fourth.index("Turn 4: found")
    assert "turn 2; 6 turns" in first
    forgetful = await play(env_of(memory={"enabled": False}), sample(), turns)
    assert "net margin" not in "".join(texts(result.observation) for result in forgetful.results)


async def test_faults_cost_the_format_and_do_not_stop_the_action(env_of, sample, play):
    bare = "<action><fetch_page>[3, 4]</fetch_page></action>"
    state = await play(env_of(), sample(), [bare, "nothing", answer(relevant="[3, 4, 9]")])
    assert [shown(result) for result in state.results[:2]] == [[3, 4], []]
    faults = [result.record.to_dict()["faults"] for result in state.results]
    assert faults == [["frame", "blocks"], ["action", "frame", "blocks"], ["relevant_pages"]]
    assert state.results[-1].record.to_dict()["relevant_pages"] == [3, 4]
    assert state.terms.values == {
        "answer": 1,
        "evidence": 1,
        "format": 0,
        "total": pytest.approx(0.9),
    }
    assert (state.metrics["invalid_actions"], state.metrics["fault/action"]) == (1, 1)


async def test_relevant_pages_are_united_over_turns(env_of, sample, play):
    turns = [fetch("[3, 5]"), fetch("[4]", "[3, 5]"), answer(relevant="4 3")]
    state = await play(env_of(), sample(), turns)
    assert state.terms.values["evidence"] == pytest.approx(3 * 2 / (2 * 2 + 3))
    assert state.terms.values["total"] == pytest.approx(0.6 + 0.3 * 6 / 7 + 0.1)
    metrics = state.metrics
    assert (metrics["pages_listed"], metrics["page_recall"]) == (3, 1)
    assert (metrics["page_precision"], metrics["page_f1"]) == pytest.approx((2 / 3, 0.8))


@pytest.mark.parametrize(
    ("reward", "evidence"), [({}, 3 / 7), ({"hits": "listed"}, 6 / 7), ({"beta2": 1}, 2 / 5)]
)
async def test_pages_listed_off_their_thumbnails(env_of, sample, play, reward, evidence):
    state = await play(
        env_of(reward=reward), sample(), [fetch("[3]"), answer(relevant="[3, 4, 5]")]
    )
    assert state.terms.values["evidence"] == pytest.approx(evidence)


@pytest.mark.parametrize(
    ("text", "values", "fault"),
    [("Blue", (1, 0, 1, 0.7), 0), (" ", (0, 0, 0, 0), 1)],
    ids=["blue", "blank"],
)
async def test_an_answer_at_once(env_of, sample, play, text, values, fault):
    state = await play(env_of(), sample(), [turn(f"<answer>{text}</answer>")])
    assert state.results[-1].end is EndReason.ANSWERED
    assert tuple(state.terms.values.values()) == pytest.approx(values)
    assert (state.metrics["finished"], state.metrics["fault/answer"]) == (1, fault)
    assert state.metrics["no_answer"] == fault


async def test_the_last_turn_must_answer(env_of, sample, play):
    turns = [fetch("[1]"), *[fetch(f"[{page}]", "[1]") for page in range(2, 12)]]
    state = await play(env_of(), sample(evidence_pages=(1, 8)), turns)
    assert len(state.results) == 8
    last = state.results[-1]
    assert last.end is EndReason.TURN_LIMIT
    assert (last.record.executed, last.record.effect.to_dict()) == (
        False,
        {"kind": "not_executed"},
    )
    assert "turn 7; 1 turn is" in texts(state.results[5].observation)
    assert "turn 8 and your last" in texts(state.results[6].observation)
    assert tuple(state.terms.values.values()) == pytest.approx((0, 0.6, 0, 0.18))
    assert (state.metrics["no_answer"], state.metrics["pages_seen"]) == (1, 7)


async def test_a_page_that_was_dropped_was_never_shown(env_of, sample, play):
    turns = [fetch("[3]"), fetch("[4, 3]", "[3, 4]")]
    state = await play(env_of(), sample(), turns, drop_last=True)
    assert state.terms.values["evidence"] == pytest.approx(0.5)
    metrics = state.metrics
    assert (metrics["context_full"], metrics["finished"], metrics["pages_seen"]) == (1, 0, 1)
    assert (metrics["image_tokens"], metrics["retrieval_recall"]) == (962, 0.5)


TIGHT = {"reserve_tokens": 500}


async def test_pages_that_leave_too_little_are_withheld(env_of, sample, play):
    """Each page is 962 tokens; the overview 810, the rest of the prompt about 700."""
    env = env_of(context_tokens=4700, **TIGHT)
    state = await play(env, sample(), [fetch("[3, 4, 5]"), answer(relevant="[3, 4]")])
    first, metrics = state.results[0], state.metrics
    assert shown(first) == [3, 4]
    assert "page 5." in texts(first.observation)
    assert "6 turns" in texts(first.observation)
    assert (first.record.effect.to_dict()["withheld"], first.record.to_dict()["faults"]) == (
        [5],
        [],
    )
    assert state.terms.values["total"] == pytest.approx(1)
    assert (metrics["budget_cut"], metrics["pages_withheld"], metrics["pages_seen"]) == (1, 1, 2)


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (retrieve("pagem4", ""), EndReason.CONTEXT_FULL),
        (answer(relevant="[3]"), EndReason.ANSWERED),
    ],
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


@pytest.mark.parametrize("settings", [{"validate": True}, {"allow_unknown_evidence": True}])
async def test_unknown_evidence(env_of, sample, play, settings):
    unknown = sample(evidence_pages=())
    with pytest.raises(UserError, match=r"'q1'.*allow_unknown_evidence"):
        await env_of().reset(unknown)
    state = await play(env_of(**settings), unknown, [fetch("[3]"), answer()])
    assert [page["gold"] for page in state.results[0].record.effect.to_dict()["pages"]] == [False]
    assert state.terms.values == {
        "answer": 1,
        "evidence": 0,
        "format": 1,
        "total": pytest.approx(0.7),
    }
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
    assert state.results[1].record.to_dict()["faults"] == ["fetch_pages"]
    assert state.terms.values["evidence"] == 1


async def test_evidence_outside_of_the_window_is_not_asked_for(env_of, sample, play):
    """The best agent reaches all evidence; questions with all evidence outside the window are not
    trained on.
    """
    partly = sample(evidence_pages=(2, 5), extra={"window": [4, 6]})
    state = await play(env_of(), partly, [fetch("[5]"), answer(relevant="[5]")])
    assert state.terms.values == pytest.approx(
        {"answer": 1, "evidence": 1, "format": 1, "total": 1}
    )
    assert (state.metrics["retrieval_recall"], state.metrics["page_f1"]) == (1, 1)
    assert state.metrics["evidence_dropped"] == 1
    outside = sample(evidence_pages=(1, 2), extra={"window": [4, 6]})
    with pytest.raises(UserError, match=r"'q1'.*4 to 6"):
        await env_of().reset(outside)
    validated = await play(env_of(validate=True), outside, [turn("<answer>blue</answer>")])
    assert (validated.metrics["evidence_known"], validated.metrics["evidence_dropped"]) == (0, 2)
    assert "page_f1" not in validated.metrics


WINDOW = r"'q1'.*extra\.window.*1 to 8"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"extra": {"window": w}}, WINDOW)
            for w in ([4], [6, 4], [0, 3], [4, 9], "4-6", [True, 3])
        ),
        ({"evidence_pages": (9,)}, "'q1'.*9.*'M'"),
        ({"extra": {"page_ids": ["M#3", "K#1"]}}, "'q1'.*'K'"),
        ({"answers": (), "answerable": None}, "'q1'"),
    ],
)
def test_questions_that_cannot_be_played(env_of, sample, changes, message):
    with pytest.raises(UserError, match=message):
        env_of().opening(sample(**changes))


class Stubborn:
    """A retriever that ignores its arguments."""

    def search(self, queries, **_):
        return [[Hit(PageRef(doc_id, page), 1.0) for doc_id in "KM" for page in (1, 1, 2, 3)]]


async def test_hits_of_other_documents_and_repeated_hits_are_left_out(
    env_of, services, sample, play
):
    env = env_of(
        services=replace(services, retriever=RetrieverService(Stubborn())), retrieval={"pages": 2}
    )
    state = await play(env, sample(), [retrieve("a"), *[retrieve("a", "")] * 2])
    assert [shown(result) for result in state.results] == [[1, 2], [3], []]
    assert [page["rank"] for page in state.results[0].record.effect.to_dict()["pages"]] == [5, 7]
    assert {image.page.doc_id for image in state.results[0].observation.images} == {"M"}
