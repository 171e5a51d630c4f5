from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, Role
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.retrieval import Hit
from tests.systems.alden.play import answer, fetch, lines, search


async def test_a_fetch_shows_a_page_without_its_number(make, sample, play):
    plain = await play(make(), sample(), [fetch(4)])
    assert lines(plain.results[0]) == ["<result>", "K#4", "</result>"]
    # with it, and a notice before the last turn
    told = await play(make(fetch_label=True, final_turn_notice=True, max_turns=2), sample(), [fetch(4)])
    assert lines(told.results[0])[:-1] == ["<result>", "Page 4:", "K#4", "</result>"]
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
    page = found.info["effect"]["pages"][0]
    assert (page["page"], page["form"], page["rank"], page["gold"]) == ("K#3", "image", 1, True)
    assert (nothing.observation.images, len(lines(nothing)), nothing.info["valid"]) == ((), 3, True)
    assert state.rewards == [1.0, 0.0]
    assert state.metrics["pages_seen"] == 1


@pytest.mark.parametrize(
    ("turn", "kind", "reward", "valid"),
    [
        (fetch(6), "no_such_page", -0.5, True),
        (fetch("9" * 6000), "no_such_page", -0.5, True),
        (fetch("four"), "malformed_fetch", -1, False),
    ],
)
@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_fetches_that_fail(make, sample, play, variant, turn, kind, reward, valid):
    state = await play(make(variant, fetch_syntax="plain"), sample(), [turn, answer("blue")])
    first = state.results[0]
    assert "1 to 5" in lines(first)[1]
    assert first.observation.images == ()
    assert (first.info["effect"]["kind"], first.info["valid"]) == (kind, valid)
    assert state.rewards == [reward, 5.0]
    assert state.metrics["failed_fetches"] == 1
    assert state.metrics["malformed_calls"] == (not valid)


@pytest.mark.parametrize(("variant", "third"), [("paper", 0.5), ("released", 1.0)])
async def test_malformed_calls_are_executed_and_cost_one(make, sample, play, variant, third):
    """What they showed counts as seen in the paper's reading only."""
    turns = ["<search>pagek4</search>", "so <fetch>3</fetch>", fetch(3)]
    state = await play(make(variant, fetch_syntax="plain"), sample(), turns)
    assert lines(state.results[0])[1:3] == ["Page 4:", "K#4"]
    assert state.rewards == pytest.approx([-1, -1, third])
    first = state.results[0].info
    assert (first["valid"], first["executed"], first["fault"]) == (False, True, "frame")
    metrics = state.metrics
    assert (metrics["malformed_calls"], metrics["invalid_actions"]) == (2, 2)
    assert metrics["invalid_action_rate"] == pytest.approx(2 / 3)
    assert (metrics["searches"], metrics["fetches"], metrics["pages_seen"]) == (1, 2, 2)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"extra": {"page_ids": ["K#3", "M#1"]}}, r"'q1'.*M#1.*'K'"),
        ({"answers": (), "answerable": None}, "'q1'"),
    ],
)
async def test_questions_that_cannot_be_played(make, sample, changes, named):
    with pytest.raises(UserError, match=named):
        await make().reset(sample(**changes))
    assert await make(allow_empty_gold=True).reset(sample(evidence_pages=()))


class Fixed:
    """A retriever with one ranking for everything."""

    def __init__(self, *pages):
        self.pages, self.asked = pages, []

    def search(self, queries, *, doc_id, top_k, exclude=()):
        self.asked.append((tuple(queries), doc_id, top_k))
        return [[Hit(PageRef(doc_id, page), 1.0 / page) for page in self.pages[:top_k]] for _ in queries]


def with_text(services, retriever):
    text = RetrieverService(retriever, attempts=2, backoff_s=0)
    return EnvServices(services.store, services.retriever, services.judge, text)


async def test_two_lists_from_two_retrievers(make, services, sample, play):
    text = Fixed(3, 1)
    limits = {"top_k": 2, "pages_per_search": 1}
    env = make(modality="hybrid", services=with_text(services, text), search=limits)
    state = await play(env, sample(), [search("pagek4")])
    said = lines(state.results[0])
    assert said[:6] == ["<result>", "Page images:", "Page 4:", "K#4", "Page texts:", "Page 3:"]
    assert said[6].startswith("pagek3 everypage")
    assert said[-1] == "</result>"
    assert text.asked == [(("pagek4",), "K", 2)]
    # pages 4 and 3, of which one is gold
    assert state.rewards == [0.5]
    forms = [(page["page"], page["form"]) for page in state.results[0].info["effect"]["pages"]]
    assert forms == [("K#4", "image"), ("K#3", "text")]


async def test_one_retriever_serves_both_lists(make, sample, play):
    state = await play(make(modality="hybrid"), sample(), [search("pagek3")])
    assert lines(state.results[0])[1:5] == ["Page images:", "Page 3:", "K#3", "Page texts:"]
    # one page in two forms is one page
    assert (state.rewards, state.metrics["pages_seen"]) == ([1.0], 1)


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


async def test_repeated_pages_are_sent_again_or_not(make, sample, play):
    turns = [search("pagek3"), fetch(3)]
    again = await play(make(), sample(), turns)
    reminded = await play(make(repeat_page="reminder"), sample(), turns)
    assert lines(again.results[1])[1] == "K#3"
    assert reminded.results[1].observation.images == ()
    assert "3" in lines(reminded.results[1])[1]
    assert again.rewards == reminded.rewards == [1, 0.5]
    assert again.metrics["image_tokens"] == 2 * reminded.metrics["image_tokens"]
    # a call that shows anything new is no repetition
    wide = make(search={"top_k": 2, "pages_per_search": 2})
    more = await play(wide, sample(), [search("pagek3"), search("pagek3 pagek4"), search("pagek4")])
    assert more.metrics["repeated_calls"] == 1


@pytest.mark.parametrize("image_budget", [{"images": 1}, {"images": 9, "image_tokens": 3000}])
async def test_no_room_for_images(make, sample, play, image_budget):
    turns = [fetch(2), fetch(3), search("pagek3"), answer("blue")]
    state = await play(make(image_budget=image_budget), sample(), turns)
    assert [result.observation.images for result in state.results[1:3]] == [(), ()]
    assert state.rewards == pytest.approx([0.3679, -0.5, 0, 5], abs=5e-5)
    assert state.metrics["pages_seen"] == 1
    assert state.metrics["image_tokens"] <= image_budget.get("image_tokens", 3200)
