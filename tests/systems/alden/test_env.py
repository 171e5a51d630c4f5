"""The rewards of ALDEN's turns."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, Role
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.rewards import REFUSAL
from tests.systems.alden.play import answer, fetch, lines, search


async def test_a_fetch_shows_a_page_without_its_number(make, sample, play):
    # and a notice before the last turn
    told = await play(make(final_turn_notice=True, max_turns=2), sample(), [fetch(4)])
    assert lines(told.results[0])[:-1] == ["<result>", "K#4", "</result>"]
    off = await play(make(fetch=False), sample(), [fetch(3)])
    assert off.results[0].end is EndReason.INVALID


async def test_a_search_shows_numbered_pages_of_the_document(make, sample, play):
    state = await play(make(), sample(), [search("pagek3"), search("pagem7")])
    found, nothing = state.results
    assert found.observation.messages[0].role is Role.USER
    assert lines(found) == ["<result>", "Page 3:", "K#3", "</result>"]
    (image,) = found.observation.images
    assert (image.page, image.raster[:2]) == (PageRef("K", 3), (0, 0))
    assert 261_070 * 0.9 < image.size[0] * image.size[1] <= 2_508_800
    assert state.metrics["image_tokens"] == image.size[0] * image.size[1] / 28**2
    page = found.record.effect.to_dict()["pages"][0]
    assert (page["page"], page["form"], page["rank"], page["gold"]) == ("K#3", "image", 1, True)
    assert (nothing.observation.images, len(lines(nothing)), nothing.record.valid) == (
        (),
        3,
        True,
    )
    assert state.rewards == [1.0, 0.0]
    assert state.metrics["pages_seen"] == 1


@pytest.mark.parametrize(
    ("turn", "kind", "reward", "valid"),
    [(fetch(6), "no_such_page", -0.5, True), (fetch("four"), "malformed_fetch", -1, False)],
)
@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_fetches_that_fail(make, sample, play, variant, turn, kind, reward, valid):
    state = await play(make(variant, fetch_syntax="plain"), sample(), [turn, answer("blue")])
    first = state.results[0]
    assert "1 to 5" in lines(first)[1]
    assert first.observation.images == ()
    assert (first.record.effect.to_dict()["kind"], first.record.valid) == (kind, valid)
    assert state.rewards == [reward, 5.0]
    assert state.metrics["failed_fetches"] == 1
    assert state.metrics["malformed_calls"] == (not valid)


@pytest.mark.parametrize(("variant", "third"), [("paper", 0.5), ("released", 1.0)])
async def test_malformed_calls_are_executed_and_cost_one(make, sample, play, variant, third):
    """The pages that they show count as seen only in the paper's variant."""
    turns = ["<search>pagek4</search>", "so <fetch>3</fetch>", fetch(3)]
    state = await play(make(variant, fetch_syntax="plain"), sample(), turns)
    assert lines(state.results[0])[1:3] == ["Page 4:", "K#4"]
    assert state.rewards == pytest.approx([-1, -1, third])
    first = state.results[0].record.to_dict()
    assert (first["valid"], first["executed"], first["fault"]) == (False, True, "frame")
    metrics = state.metrics
    assert (metrics["malformed_calls"], metrics["invalid_actions"]) == (2, 2)
    assert metrics["invalid_action_rate"] == pytest.approx(2 / 3)
    assert (metrics["searches"], metrics["fetches"], metrics["pages_seen"]) == (1, 2, 2)


@pytest.mark.parametrize("modality", ["visual", "hybrid"])
async def test_a_window_is_all_there_is(make, sample, play, modality):
    windowed = sample(extra={"window": [4, 5]}, evidence_pages=(3, 4))
    form = "" if modality == "visual" else "image, "
    turns = [search("pagek3 pagek2"), fetch(f"{form}3"), fetch(f"{form}5"), fetch("?")]
    env = make(modality=modality, search={"top_k": 3, "pages_per_search": 3})
    state = await play(env, windowed, turns)
    assert "The document has 2 pages, numbered 4 to 5." in lines_of(state.prompt)
    nothing, outside, inside, malformed = state.results
    assert nothing.observation.images == ()
    assert "the document has pages 4 to 5" in lines(outside)[1]
    assert "K#5" in lines(inside)
    assert "from 4 to 5" in lines(malformed)[1]
    # page 4 is the only gold page: page 3 lies outside
    assert inside.terms.values["fetch"] == pytest.approx(0.3679, abs=5e-5)
    assert state.metrics["retrieval_recall"] == 0.0


def lines_of(prompt) -> str:
    return "\n".join(part.text for message in prompt.messages for part in message.parts)


def test_gold_pages_of_another_document_are_refused(make, sample):
    with pytest.raises(UserError, match=r"'q1'.*M#1.*'K'"):
        make().opening(sample(extra={"page_ids": ["K#3", "M#1"]}))


@pytest.mark.parametrize(("cut_fetched", "whole"), [(True, False), (False, True)])
async def test_page_text_is_cut(make, sample, play, cut_fetched, whole):
    env = make(modality="hybrid", ocr_tokens=4, cut_fetched_text=cut_fetched)
    state = await play(env, sample(), [search("pagek3"), fetch("text, 3")])
    assert "everypage" not in lines(state.results[0])[6]
    assert ("everypage" in lines(state.results[1])[1]) is whole


@pytest.mark.parametrize(("text", "shown"), [("a</result>b", "a< /result>b"), (" \n", "no text")])
async def test_a_page_cannot_close_its_result(make, sample, play, store, monkeypatch, text, shown):
    monkeypatch.setattr(type(store.page(PageRef("K", 3))), "text", lambda self: text)
    state = await play(make(modality="hybrid"), sample(), [fetch("text, 3")])
    opening, said, closing = lines(state.results[0])
    assert (opening, closing) == ("<result>", "</result>")
    assert shown in said
    assert "</result>" not in said


async def test_repeated_pages_are_sent_again(make, sample, play):
    again = await play(make(), sample(), [search("pagek3"), fetch(3)])
    assert lines(again.results[1])[1] == "K#3"
    assert (again.rewards, again.metrics["repeated_calls"]) == ([1, 0.5], 1)
    # a call that shows anything new is no repetition
    wide = make(search={"top_k": 2, "pages_per_search": 2})
    more = await play(wide, sample(), [search("pagek3"), search("pagek3 pagek4"), search("pagek4")])
    assert more.metrics["repeated_calls"] == 1


async def test_no_room_for_images(make, sample, play):
    turns = [fetch(2), fetch(3), search("pagek3"), answer("blue")]
    state = await play(make(image_budget={"images": 1}), sample(), turns)
    assert [result.observation.images for result in state.results[1:3]] == [(), ()]
    assert state.rewards == pytest.approx([0.3679, -0.5, 0, 5], abs=5e-5)
    assert state.metrics["pages_seen"] == 1
    assert state.metrics["image_tokens"] <= 3200


UNANSWERABLE = {"answers": (), "answerable": False, "evidence_pages": ()}
# like pages 7 and 11 of the specification's example
LONGER = {"doc_id": "M", "evidence_pages": (2, 6)}
FETCHES = [fetch(2), fetch(4), fetch(7)]
FORMS = [fetch("image, 3"), fetch("text, 3"), fetch("text, 3")]
QUERIES = ["capital expenditure by region 2019", "table of capital expenditure by region"]
PAIR = {"evidence_pages": (1, 3)}
THREE = {"search": {"top_k": 4, "pages_per_search": 3}, "query_repetition": {"enabled": False}}
ENDING = {**THREE, "image_budget": {"images": 1, "on_full": "end"}}
TWICE = [search("everypage"), search("everypage pagek3")]
NOTHING_TO_FIND = [search("pagek3"), fetch(3), fetch(9), answer(REFUSAL)]


@pytest.mark.parametrize(
    ("variant", "settings", "changes", "turns", "rewards"),
    [
        ("paper", {}, {}, [fetch(3), fetch(3)], [1.0, 0.5]),
        ("released", {}, {}, [fetch(3), fetch(3)], [1.0, 0.0]),
        ("paper", {}, LONGER, FETCHES, [0.1353, 0.1353, 0.0498]),
        ("released", {}, LONGER, FETCHES, [1.0, 0.1104, 0.0669]),
        # precision, and new pages
        ("paper", THREE, PAIR, TWICE, [2 / 3, 2 / 3]),
        ("released", {}, PAIR, TWICE, [2, 0]),
        ("released", {"search": {"top_k": 1, "pages_per_search": 1}}, PAIR, TWICE, [1, 1]),
        # a malformed query is not charged twice
        ("paper", {}, {}, [search("a b c"), "<search>a b c</search>"], [0, -1]),
        # without evidence the paper charges repetition still; the release pays and charges nothing
        ("paper", {}, UNANSWERABLE, NOTHING_TO_FIND, [0, -0.5, -0.5, 5]),
        ("released", {}, UNANSWERABLE, NOTHING_TO_FIND, [0, 0, 0, 5]),
        # repetition is of a page in a form; in the release a search pays for pages new in either
        # form
        ("paper", {"modality": "hybrid"}, {}, FORMS, [1.0, 1.0, 0.5]),
        ("released", {"modality": "hybrid"}, {}, [fetch("text, 3"), search("pagek3")], [1, 0]),
        ("paper", {"numeric_metric": "anls"}, {"answers": ("24",)}, [answer("42")], [0]),
    ],
)
async def test_turns(make, sample, play, variant, settings, changes, turns, rewards):
    state = await play(make(variant, fetch_syntax="plain", **settings), sample(**changes), turns)
    assert state.rewards == pytest.approx(rewards, abs=5e-5)
    charged = sum(term.reward for result in state.results for term in result.terms.tokens)
    assert state.metrics["reward/total"] == pytest.approx(sum(rewards) + charged, abs=2e-4)


# section 5.7 of the specification: does stalling pay?


async def test_a_query_in_other_characters_earns_what_repeating_it_earns(make, sample, play):
    queries = ["pagek3", "page\u00adk3", "P\u00c1GEK3!", "\u24df\u200dagek3\ufeff"]
    state = await play(make(), sample(), list(map(search, queries)))
    charged = [sum(term.reward for term in result.terms.tokens) for result in state.results]
    assert [*map(sum, zip(state.rewards, charged, strict=True))] == [1, 0, 0, 0]


SAME = [
    "capital expenditure by region",
    "region by capital expenditure",
    "Regions, by capital expenditures",
]


@pytest.mark.parametrize("query", SAME)
async def test_a_query_in_another_order_of_words_is_no_new_one(make, sample, play, query):
    state = await play(make("paper"), sample(), [search(SAME[0]), search(query)])
    assert state.results[1].terms.values["query_repetition"] == 1


# four of seven words, and two of four trigrams, which lie over the words in the middle twice
PENALTIES = [
    ("paper", 1.0, 4 / 7, {"capital": 1 / 4, "expenditure": 1 / 4, "by": 1 / 4, "region": 1 / 4}),
    (
        "released",
        0.3,
        2 / 4,
        {"capital": 1 / 6, "expenditure": 2 / 6, "by": 2 / 6, "region": 1 / 6},
    ),
]


@pytest.mark.parametrize(("variant", "weight", "overlap", "shares"), PENALTIES)
async def test_query_penalties_lie_on_their_words(
    make, sample, play, variant, weight, overlap, shares
):
    env = make(variant, query_repetition={"enabled": True})
    first, second = (await play(env, sample(), [search(query) for query in QUERIES])).results
    assert first.terms.tokens == ()
    text, terms = search(QUERIES[1]), second.terms
    charged = {text[slice(*term.span)]: term.reward for term in terms.tokens}
    assert charged == pytest.approx(
        {word: -weight * overlap * part for word, part in shares.items()}
    )
    assert {term.name for term in terms.tokens} == {"query_repetition"}
    assert sum(term.value for term in terms.tokens) == pytest.approx(overlap)
    assert (terms.reward, terms.values["query_repetition"]) == (0, pytest.approx(overlap))
    assert (
        terms.values["total"] == env.metrics()["reward/total"] == pytest.approx(-weight * overlap)
    )


@pytest.mark.parametrize(
    ("variant", "settings", "turns", "rewards"),
    [
        # the turn was the last and no answer
        (
            "released",
            {"image_budget": {"images": 2}},
            [search("pagek3"), search("everypage")],
            [1, -1],
        ),
        ("paper", ENDING, [search("everypage")], [0]),
    ],
)
async def test_no_room_may_end_the_trajectory(
    make, sample, play, variant, settings, turns, rewards
):
    state = await play(make(variant, **settings), sample(), turns)
    assert (state.rewards, state.results[-1].end) == (rewards, EndReason.IMAGE_LIMIT)
    assert state.metrics["pages_seen"] == len(turns) - 1
    assert state.metrics["reward/total"] == 0


@pytest.mark.parametrize(
    ("variant", "turn", "paid", "settled", "values"),
    [
        ("paper", search("pagek3"), 1.0, 0.0, {}),
        ("paper", fetch(3), 1.0, -0.5, {"fetch_failed": 1.0}),
        ("paper", fetch(9), -0.5, -0.5, {"fetch_failed": 1.0}),
        ("paper", "<search>pagek3</search>", -1.0, -1.0, {"format": -1.0}),
        ("released", search("pagek3"), 1.0, -1.0, {"format": -1.0}),
        ("released", fetch("3-th"), 1.0, -1.0, {"format": -1.0}),
        # what a query was charged on its tokens stays
        ("paper", search("pagek4"), 0.0, 0.0, {"query_repetition": 1.0, "total": -1.0}),
    ],
)
async def test_a_result_that_was_dropped(make, sample, play, variant, turn, paid, settled, values):
    state = await play(make(variant), sample(), [search("pagek4"), turn], drop_last=True)
    assert state.rewards[1] == pytest.approx(paid)
    assert state.rewards[1] + state.terms.reward == pytest.approx(settled)
    nothing = dict.fromkeys(AldenConfig.for_variant(variant).terms, 0.0)
    assert dict(state.terms.values) == {**nothing, "total": settled, **values}
    metrics = state.metrics
    assert (metrics["context_full"], metrics["pages_seen"], metrics["retrieval_recall"]) == (
        1,
        1,
        0,
    )
    assert metrics["reward/total"] == pytest.approx(state.terms.values["total"])
    assert state.terms.tokens == ()
