from __future__ import annotations

import pytest

from docagent_rl.actions import StopCause
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart, Role
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval import Hit
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv
from tests.systems.alden.play import THOUGHT, answer, fetch, lines, search

GAMMA = 0.9
NOTHING = dict.fromkeys(AldenConfig.for_variant("paper").terms, 0.0)
ONE_GOLD = {"extra": {}, "evidence_pages": (3,)}
UNANSWERABLE = {"answers": (), "answerable": False, "extra": {}, "evidence_pages": ()}


async def test_the_start(make, sample):
    prompt = await make().reset(sample())
    assert [message.role for message in prompt.messages] == [Role.SYSTEM, Role.USER]
    assert prompt.images == ()
    system, user = (message.parts[0].text for message in prompt.messages)
    assert "<fetch>" in system
    assert r"\boxed{ }" in system
    assert "The problem is not answerable" in system
    assert user == "The document has 5 pages, numbered 1 to 5.\nQuestion: What is the answer?"


async def test_a_search_shows_a_numbered_page(make, sample, play):
    episode = await play(make(), sample(), [search("pagek3")])
    (message,) = episode.results[0].observation.messages
    assert message.role is Role.USER
    assert lines(episode.results[0]) == ["<result>", "Page 3:", "K#3", "</result>"]
    (image,) = episode.results[0].observation.images
    assert image.page == PageRef("K", 3)
    assert 261_070 * 0.9 < image.size[0] * image.size[1] <= 2_508_800
    page = episode.results[0].info["effect"]["pages"][0]
    assert (page["page"], page["form"], page["rank"], page["gold"]) == ("K#3", "image", 1, True)
    assert episode.rewards == [1.0]


async def test_a_search_stays_in_the_document(make, sample, play):
    episode = await play(make(), sample(), [search("pagem7")])
    assert episode.results[0].observation.images == ()
    assert len(lines(episode.results[0])) == 3
    assert episode.rewards == [0.0]
    assert episode.results[0].info["valid"]
    assert episode.metrics["pages_seen"] == 0


async def test_a_fetch_shows_a_page_without_its_number(make, sample, play):
    episode = await play(make(), sample(), [fetch(4)])
    assert lines(episode.results[0]) == ["<result>", "K#4", "</result>"]
    labelled = await play(make(fetch_label=True), sample(), [fetch(4)])
    assert lines(labelled.results[0]) == ["<result>", "Page 4:", "K#4", "</result>"]


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
    env = make(variant, fetch_syntax="plain")
    episode = await play(env, sample(), [turn, answer("blue")])
    first = episode.results[0]
    assert "1 to 5" in lines(first)[1]
    assert first.observation.images == ()
    assert (first.info["effect"]["kind"], first.info["valid"]) == (kind, valid)
    assert episode.rewards == [reward, 5.0]
    assert episode.metrics["failed_fetches"] == 1
    assert episode.metrics["malformed_calls"] == (not valid)


@pytest.mark.parametrize(
    ("turn", "stop", "reason"),
    [
        ("I would search.", StopCause.END_OF_TURN, "no_action"),
        (f"{THOUGHT}<answer>blue</answer>", StopCause.END_OF_TURN, "bad_argument"),
        (search("pagek3"), StopCause.TRUNCATED, "truncated"),
        (answer("blue"), StopCause.CONTROL_TOKEN, "control_token"),
    ],
)
@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_turns_that_end_the_episode(make, sample, play, variant, turn, stop, reason):
    episode = await play(make(variant), sample(), [AssistantTurn(turn, stop)])
    (result,) = episode.results
    assert result.end is EndReason.INVALID
    assert (result.info["valid"], result.info["reason"]) == (False, reason)
    assert episode.rewards == [-1]
    assert episode.metrics["finished"] == 0


@pytest.mark.parametrize(("variant", "third"), [("paper", 0.5), ("released", 1.0)])
async def test_malformed_calls_are_executed_and_cost_one(make, sample, play, variant, third):
    """What they showed counts as seen in the paper's reading only."""
    env = make(variant, fetch_syntax="plain")
    turns = ["<search>pagek4</search>", "so <fetch>3</fetch>", fetch(3)]
    episode = await play(env, sample(), turns)
    assert lines(episode.results[0])[1:3] == ["Page 4:", "K#4"]
    assert episode.rewards == pytest.approx([-1, -1, third])
    first = episode.results[0].info
    assert (first["valid"], first["executed"], first["fault"]) == (False, True, "frame")
    metrics = episode.metrics
    assert (metrics["malformed_calls"], metrics["invalid_actions"]) == (2, 2)
    assert metrics["invalid_action_rate"] == pytest.approx(2 / 3)
    assert (metrics["searches"], metrics["fetches"], metrics["pages_seen"]) == (1, 2, 2)


@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_the_last_turn_is_only_read_for_an_answer(make, sample, play, variant):
    env = make(variant, fetch_syntax="plain")
    episode = await play(env, sample(), [fetch(1)] * 5 + [search("pagek3")])
    last = episode.results[-1]
    assert (len(episode.results), last.end) == (6, EndReason.TURN_LIMIT)
    assert (last.info["effect"]["kind"], last.info["executed"]) == ("not_executed", False)
    assert episode.rewards[-1] == -1
    assert episode.metrics["retrieval_recall"] == 0
    answered = await play(env, sample(), [fetch(1)] * 5 + [answer("blue")])
    assert answered.rewards[-1] == 5


async def test_an_answer_at_once(make, sample, play, judge):
    episode = await play(make(), sample(), [answer("the Blue")])
    assert episode.results[0].end is EndReason.ANSWERED
    assert episode.rewards == [5.0]
    assert dict(episode.terms.values) == {**NOTHING, "answer": 1.0, "total": 5.0}
    assert judge.asked == []
    metrics = episode.metrics
    assert (metrics["finished"], metrics["turns"], metrics["retrieval_precision"]) == (1, 1, 0)


async def test_questions_that_cannot_be_played(make, record):
    with pytest.raises(UserError, match=r"'q1'.*M#1.*'K'"):
        await make().reset(record())
    with pytest.raises(UserError, match="'q1'"):
        await make().reset(record(extra={}, evidence_pages=()))
    assert await make(allow_empty_gold=True).reset(record(extra={}, evidence_pages=()))
    with pytest.raises(UserError, match="'q1'"):
        await make().reset(record(**ONE_GOLD, answers=(), answerable=None))


class Fixed:
    """A retriever with one ranking for everything."""

    def __init__(self, *pages):
        self.pages, self.asked = pages, []

    def search(self, queries, *, doc_id, top_k, exclude=()):
        self.asked.append((tuple(queries), doc_id, top_k))
        return [[Hit(PageRef(doc_id, page), 1.0 / page) for page in self.pages[:top_k]] for _ in queries]


async def test_two_lists_from_two_retrievers(make, services, store, sample, play):
    text = Fixed(3, 1)
    both = EnvServices(store, services.retriever, services.judge, RetrieverService(text))
    env = make(modality="hybrid", services=both, search={"top_k": 2, "pages_per_search": 1})
    episode = await play(env, sample(), [search("pagek4")])
    said = lines(episode.results[0])
    assert said[:6] == ["<result>", "Page images:", "Page 4:", "K#4", "Page texts:", "Page 3:"]
    assert said[6].startswith("pagek3 everypage")
    assert said[-1] == "</result>"
    assert text.asked == [(("pagek4",), "K", 2)]
    # pages 4 and 3, of which one is gold
    assert episode.rewards == [0.5]
    forms = [(page["page"], page["form"]) for page in episode.results[0].info["effect"]["pages"]]
    assert forms == [("K#4", "image"), ("K#3", "text")]


def test_two_rankings_need_two_retrievers(services):
    with pytest.raises(UserError, match=r"docagent\.text_retriever.*text_ranking=shared"):
        AldenEnv(AldenConfig.for_variant("paper", modality="hybrid"), services)


async def test_one_retriever_serves_both_lists(make, sample, play):
    episode = await play(make(modality="hybrid"), sample(), [search("pagek3")])
    said = lines(episode.results[0])
    assert said[1:5] == ["Page images:", "Page 3:", "K#3", "Page texts:"]
    # one page in two forms is one page
    assert episode.rewards == [1.0]
    assert episode.metrics["pages_seen"] == 1


@pytest.mark.parametrize(("cut_fetched", "whole"), [(True, False), (False, True)])
async def test_page_text_is_cut(make, sample, play, cut_fetched, whole):
    env = make(modality="hybrid", ocr_tokens=4, cut_fetched_text=cut_fetched)
    episode = await play(env, sample(), [search("pagek3"), fetch("text, 3")])
    assert "everypage" not in lines(episode.results[0])[6]
    assert ("everypage" in lines(episode.results[1])[1]) is whole


async def test_a_page_cannot_close_its_result(make, sample, play, store, monkeypatch):
    page_type = type(store.page(PageRef("K", 3)))
    monkeypatch.setattr(page_type, "text", lambda self: "a</result>b")
    episode = await play(make(modality="hybrid"), sample(), [fetch("text, 3"), fetch("text, 3")])
    assert lines(episode.results[0]) == ["<result>", "a< /result>b", "</result>"]
    monkeypatch.setattr(page_type, "text", lambda self: " \n")
    episode = await play(make(modality="hybrid"), sample(), [fetch("text, 3")])
    assert lines(episode.results[0])[1] == "(This page has no text.)"


async def test_repeated_pages_are_sent_again_or_not(make, sample, play):
    turns = [search("pagek3"), fetch(3)]
    again = await play(make(), sample(), turns)
    assert lines(again.results[1])[1] == "K#3"
    reminded = await play(make(repeat_page="reminder"), sample(), turns)
    assert reminded.results[1].observation.images == ()
    assert "3" in lines(reminded.results[1])[1]
    assert again.rewards == reminded.rewards == [1, 0.5]
    assert again.metrics["image_tokens"] == 2 * reminded.metrics["image_tokens"]


@pytest.mark.parametrize("image_budget", [{"images": 1}, {"images": 9, "image_tokens": 3000}])
async def test_no_room_for_images(make, sample, play, image_budget):
    turns = [fetch(2), fetch(3), search("pagek3"), answer("blue")]
    env = make(image_budget=image_budget)
    episode = await play(env, sample(), turns)
    for result in episode.results[1:3]:
        assert result.observation.images == ()
    assert episode.rewards == pytest.approx([0.3679, -0.5, 0, 5], abs=5e-5)
    assert episode.metrics["pages_seen"] == 1
    assert episode.metrics["image_tokens"] <= env._config.max_image_tokens


async def test_notice_of_the_last_turn(make, sample, play):
    env = make(max_turns=3, final_turn_notice=True)
    episode = await play(env, sample(), [fetch(1), fetch(2), answer("blue")])
    assert lines(episode.results[0])[-1] == "</result>"
    assert lines(episode.results[1])[-2] == "</result>"


async def test_without_fetch(make, sample, play):
    episode = await play(make(fetch=False), sample(), [fetch(3)])
    assert "fetch" not in episode.prompt.messages[0].parts[0].text.lower()
    assert episode.results[0].end is EndReason.INVALID


async def test_images_are_references_to_whole_pages(make, sample, play):
    episode = await play(make(), sample(), [fetch(2)])
    (part,) = [p for p in episode.results[0].observation.messages[0].parts if isinstance(p, ImagePart)]
    assert part.image.raster[:2] == (0, 0)
    assert part.image.page == PageRef("K", 2)
    assert episode.metrics["image_tokens"] == part.image.size[0] * part.image.size[1] / 28**2


class Broken:
    def search(self, *_, **__):
        raise ConnectionError("retriever_7")


@pytest.mark.parametrize("which", ["retriever", "text_retriever"])
async def test_service_failures_are_no_rewards(make, services, sample, which):
    broken = RetrieverService(Broken(), attempts=2, backoff_s=0)
    parts = {"retriever": services.retriever, "text_retriever": services.retriever, which: broken}
    env = make(modality="hybrid", services=EnvServices(services.store, judge=services.judge, **parts))
    await env.reset(sample())
    with pytest.raises(InfrastructureError, match="retriever_7"):
        await env.step(AssistantTurn(search("pagek3")))
