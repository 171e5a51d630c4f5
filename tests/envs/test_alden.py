from __future__ import annotations

import logging

import pytest

from docagent_rl.actions import StopCause
from docagent_rl.documents import PageRef
from docagent_rl.envs import alden
from docagent_rl.envs.alden import AldenEnv
from docagent_rl.envs.alden_config import AldenConfig
from docagent_rl.envs.base import AssistantTurn, EndReason, ImagePart, Role
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.alden import TERMS
from tests.envs.alden_play import THOUGHT, answer, fetch, lines, search

GAMMA = 0.9
ONE_GOLD = {"extra": {}, "evidence_pages": (3,)}
UNANSWERABLE = {"answers": (), "answerable": False, "extra": {}, "evidence_pages": ()}


@pytest.fixture
def make(services):
    def make_env(variant="paper", *, services=services, **overrides) -> AldenEnv:
        return AldenEnv(AldenConfig.for_variant(variant, **overrides), services)

    return make_env


@pytest.fixture
def sample(record):
    return lambda **changes: record(**{**ONE_GOLD, **changes})


def discounted(episode):
    return sum(GAMMA**turn * reward for turn, reward in enumerate(episode.rewards))


async def test_the_start(make, sample):
    prompt = make().reset(sample())
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
    assert lines(episode.results[0]) == ["<result>", "No page matches this query. Use other words.", "</result>"]
    assert episode.rewards == [0.0]
    assert episode.results[0].info["valid"]
    assert episode.metrics["pages_seen"] == 0


async def test_a_fetch_shows_a_page_without_its_number(make, sample, play):
    episode = await play(make(), sample(), [fetch(4)])
    assert lines(episode.results[0]) == ["<result>", "K#4", "</result>"]
    labelled = await play(make(fetch_label=True), sample(), [fetch(4)])
    assert lines(labelled.results[0]) == ["<result>", "Page 4:", "K#4", "</result>"]


@pytest.mark.parametrize(
    ("turn", "kind", "clause", "reward", "valid"),
    [
        (fetch(6), "no_such_page", "There is no page of this number: the document has pages 1 to 5.", -0.5, True),
        (fetch("9" * 6000), "no_such_page", "There is no page of this number", -0.5, True),
        (fetch("four"), "malformed_fetch", "This does not name a page. Give one whole number", -1, False),
        (fetch("0"), "malformed_fetch", "This does not name a page.", -1, False),
    ],
)
@pytest.mark.parametrize("variant", ["paper", "released"])
async def test_fetches_that_fail(make, sample, play, variant, turn, kind, clause, reward, valid):
    env = make(variant, fetch_syntax="plain")
    episode = await play(env, sample(), [turn, answer("blue")])
    first = episode.results[0]
    assert lines(first)[1].startswith(clause)
    assert first.observation.images == ()
    assert (first.info["effect"]["kind"], first.info["valid"]) == (kind, valid)
    assert episode.rewards == [reward, 5.0]
    assert episode.metrics["failed_fetches"] == 1
    assert episode.metrics["malformed_calls"] == (not valid)


@pytest.mark.parametrize(
    ("turn", "stop", "reason"),
    [
        ("I would search.", StopCause.END_OF_TURN, "no_action"),
        (f"{THOUGHT}<search> </search>", StopCause.END_OF_TURN, "bad_argument"),
        (f"{THOUGHT}<answer>blue</answer>", StopCause.END_OF_TURN, "bad_argument"),
        (answer("blue").removeprefix(THOUGHT), StopCause.END_OF_TURN, "bad_argument"),
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
    assert dict(episode.terms.values) == {**dict.fromkeys(TERMS, 0.0), "answer": 1.0, "total": 5.0}
    assert judge.asked == []
    metrics = episode.metrics
    assert (metrics["finished"], metrics["turns"], metrics["retrieval_precision"]) == (1, 1, 0)


# section 5.7 of the specification: does stalling pay?
@pytest.mark.parametrize(
    ("variant", "calls", "value"),
    [
        ("paper", 1, 5.5),
        ("paper", 5, 7.0475),
        ("released", 1, 5.5),
        ("released", 5, 3.9525),
    ],
)
async def test_what_repeated_searches_are_worth(make, sample, play, variant, calls, value):
    turns = [search("pagek3")] * calls + [answer("blue")]
    episode = await play(make(variant), sample(), turns)
    assert discounted(episode) == pytest.approx(value, abs=1e-4)
    assert episode.metrics["repeated_calls"] == calls - 1
    assert episode.metrics["repeated_call_rate"] == pytest.approx((calls - 1) / calls)
    # the paper charges repeated queries by their tokens
    charged = sum(term.value for result in episode.results for term in result.terms.tokens)
    assert charged == pytest.approx(-(calls - 1) if variant == "paper" else 0)


@pytest.mark.parametrize(("variant", "repeat"), [("paper", 0.5), ("released", 0.0)])
async def test_what_a_repeated_fetch_is_worth(make, sample, play, variant, repeat):
    env = make(variant, fetch_syntax="plain")
    episode = await play(env, sample(), [fetch(3), fetch(3)])
    assert episode.rewards == [1.0, repeat]
    assert episode.results[1].terms.values["fetch_repetition"] == 1
    # (1 - gamma) * A: the paper's repeat is neutral for a right answer, and pays for a wrong one
    assert (repeat >= (1 - GAMMA) * 5 - 1e-9) is (variant == "paper")


@pytest.mark.parametrize(
    ("variant", "rewards"),
    [
        ("paper", [0.1353, 0.1353, 0.0498]),
        ("released", [1.0, 0.1104, 0.0669]),
    ],
)
async def test_fetches_in_a_longer_document(make, record, play, variant, rewards):
    """Document M with pages 2 and 6 gold; like 7 and 11 of the specification's example."""
    env = make(variant, fetch_syntax="plain")
    sample = record(doc_id="M", extra={}, evidence_pages=(2, 6))
    episode = await play(env, sample, [fetch(2), fetch(4), fetch(7)])
    assert episode.rewards == pytest.approx(rewards, abs=5e-5)


async def test_search_precision_and_new_pages(make, record, play):
    gold = {"extra": {}, "evidence_pages": (1, 3)}
    turns = [search("everypage"), search("everypage pagek3")]
    paper = make(search={"top_k": 4, "pages_per_search": 3}, query_repetition={"enabled": False})
    assert (await play(paper, record(**gold), turns)).rewards == pytest.approx([2 / 3, 2 / 3])
    assert (await play(make("released"), record(**gold), turns)).rewards == [2, 0]
    narrow = make("released", search={"top_k": 1, "pages_per_search": 1})
    assert (await play(narrow, record(**gold), turns)).rewards == [1, 1]


async def test_query_penalties_lie_on_their_words(make, sample, play):
    queries = ["capital expenditure by region 2019", "table of capital expenditure by region"]
    episode = await play(make(), sample(), [search(query) for query in queries])
    assert episode.results[0].terms.tokens == ()
    text, terms = search(queries[1]), episode.results[1].terms
    charged = {text[slice(*term.span)]: term.value for term in terms.tokens}
    assert charged == pytest.approx(
        {"capital": -1 / 15, "expenditure": -2 / 15, "by": -2 / 15, "region": -1 / 15}
    )
    assert {term.name for term in terms.tokens} == {"query_repetition"}
    assert terms.values["query_repetition"] == pytest.approx(0.4)
    assert terms.reward == 0
    assert terms.values["total"] == pytest.approx(-0.4)
    assert episode.metrics["reward/total"] == pytest.approx(-0.4)


async def test_query_penalties_of_the_release(make, sample, play):
    queries = ["capital expenditure by region 2019", "table of capital expenditure by region"]
    env = make("released", query_repetition={"enabled": True})
    episode = await play(env, sample(), [search(query) for query in queries])
    values = [term.value for term in episode.results[1].terms.tokens]
    assert values == pytest.approx([-0.025, -0.05, -0.05, -0.025])


async def test_malformed_queries_are_not_charged_twice(make, sample, play):
    episode = await play(make(), sample(), [search("a b c"), "<search>a b c</search>"])
    assert (episode.rewards, episode.results[1].terms.tokens) == ([0, -1], ())


@pytest.mark.parametrize(
    ("variant", "changes", "said", "reward"),
    [
        ("paper", UNANSWERABLE, "The problem is not answerable", 5.0),
        ("released", UNANSWERABLE, "The problem is not answerable", 5.0),
        ("released", UNANSWERABLE, "so the problem is not answerable", 5 * 2 * 4 / 9),
        ("released", UNANSWERABLE, "blue", -2.0),
        ("released", {}, "The problem is not answerable", -5.0),
        ("released", {"answers": ("The problem is not answerable",)}, "blue", -2.0),
        ("released", {"answers": ("The problem is not answerable", "blue")}, "blue", 5.0),
        ("released", {"answers": ("The problem is not answerable", "blue")}, "The problem is not answerable", 5.0),
        ("released", {"answers": ("yes",)}, "yes it is", 0.0),
        ("paper", {"answers": ("24",)}, "42", 5.0),
        ("released", {"answers": ("24",)}, "42", 0.0),
    ],
)  # fmt: skip
async def test_answers(make, sample, play, variant, changes, said, reward):
    episode = await play(make(variant), sample(**changes), [answer(said)])
    assert episode.rewards == pytest.approx([reward])


async def test_paper_refusals_are_scored_as_texts(make, sample, play):
    wrong = await play(make(), sample(), [answer("The problem is not answerable")])
    assert 0 < wrong.rewards[0] < 5
    missed = await play(make(), sample(**UNANSWERABLE), [answer("blue")])
    assert 0 < missed.rewards[0] < 5
    assert (missed.metrics["unanswerable"], wrong.metrics["refused"]) == (1, 1)


async def test_without_evidence(make, sample, play):
    """The paper charges repetition still; the release pays and charges nothing."""
    turns = [search("pagek3"), fetch(3), fetch(9), answer("The problem is not answerable")]
    paper = await play(make(), sample(**UNANSWERABLE), turns)
    assert paper.rewards == [0, -0.5, -0.5, 5]
    released = await play(make("released", fetch_syntax="plain"), sample(**UNANSWERABLE), turns)
    assert released.rewards == [0, 0, 0, 5]
    for episode in (paper, released):
        assert (episode.metrics["has_gold"], episode.metrics["retrieval_f1"]) == (0, 0)
        assert episode.metrics["pages_seen"] == 1


async def test_questions_that_cannot_be_played(make, record):
    with pytest.raises(UserError, match=r"'q1': gold page M#1 lies outside its document 'K'"):
        make().reset(record())
    with pytest.raises(UserError, match="'q1' has no gold pages"):
        make().reset(record(extra={}, evidence_pages=()))
    assert make(allow_empty_gold=True).reset(record(extra={}, evidence_pages=()))
    with pytest.raises(UserError, match="no reference answer"):
        make().reset(record(**ONE_GOLD, answers=(), answerable=None))
    with pytest.raises(UserError, match="no document 'Z'"):
        make().reset(record(extra={}, doc_id="Z"))


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


async def test_one_retriever_serves_both_lists(make, sample, play):
    episode = await play(make(modality="hybrid"), sample(), [search("pagek3")])
    said = lines(episode.results[0])
    assert said[1:5] == ["Page images:", "Page 3:", "K#3", "Page texts:"]
    # one page in two forms is one page
    assert episode.rewards == [1.0]
    assert episode.metrics["pages_seen"] == 1


async def test_repetition_is_of_a_page_in_a_form(make, sample, play):
    turns = [fetch("image, 3"), fetch("text, 3"), fetch("text, 3")]
    episode = await play(make(modality="hybrid"), sample(), turns)
    assert episode.rewards == [1.0, 1.0, 0.5]
    assert episode.results[1].observation.images == ()
    assert lines(episode.results[1])[1].startswith("pagek3 everypage")
    assert episode.results[1].info["action"]["form"] == "text"
    released = make("released", modality="hybrid", fetch_syntax="plain")
    # in the release a search pays for pages that are new in either form
    assert (await play(released, sample(), [fetch("text, 3"), search("pagek3")])).rewards == [1, 0]


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
    assert lines(reminded.results[1])[1] == "Page 3 was returned before; see above."
    assert again.rewards == reminded.rewards == [1, 0.5]
    assert again.metrics["image_tokens"] == 2 * reminded.metrics["image_tokens"]


@pytest.mark.parametrize("room", [{"images": 1}, {"images": 9, "image_tokens": 600}])
async def test_no_room_for_images(make, sample, play, room):
    turns = [fetch(2), fetch(3), search("pagek3"), answer("blue")]
    env = make(room=room)
    episode = await play(env, sample(), turns)
    for result in episode.results[1:3]:
        assert result.observation.images == ()
        assert lines(result)[1].startswith("There is no room")
    assert episode.rewards == pytest.approx([0.3679, -0.5, 0, 5], abs=5e-5)
    assert episode.metrics["pages_seen"] == 1
    assert episode.metrics["image_tokens"] <= env._config.max_image_tokens


async def test_no_room_ends_the_episode_in_the_release(make, sample, play):
    env = make("released", room={"images": 2})
    episode = await play(env, sample(), [search("pagek3"), search("everypage")])
    last = episode.results[-1]
    assert last.end is EndReason.IMAGE_LIMIT
    # the turn was the last and no answer
    assert episode.rewards == [1, -1]
    assert episode.metrics["pages_seen"] == 1
    assert episode.metrics["reward/total"] == 0
    mixed = make(room={"images": 1, "on_full": "end"}, search={"top_k": 5, "pages_per_search": 3})
    ended = await play(mixed, sample(), [search("everypage")])
    assert (ended.rewards, ended.results[-1].end) == ([0], EndReason.IMAGE_LIMIT)


@pytest.mark.parametrize(
    ("variant", "turn", "paid", "settled", "values"),
    [
        ("paper", search("pagek3"), 1.0, 0.0, {}),
        ("paper", fetch(3), 1.0, -0.5, {"fetch_failed": 1.0}),
        ("paper", fetch(9), -0.5, -0.5, {"fetch_failed": 1.0}),
        ("paper", "<search>pagek3</search>", -1.0, -1.0, {"format": -1.0}),
        ("released", search("pagek3"), 1.0, -1.0, {"format": -1.0}),
        ("released", fetch("3-th"), 1.0, -1.0, {"format": -1.0}),
    ],
)
async def test_a_result_that_was_dropped(make, sample, play, variant, turn, paid, settled, values):
    episode = await play(make(variant), sample(), [search("pagek4"), turn], drop_last=True)
    assert episode.rewards[1] == pytest.approx(paid)
    assert episode.rewards[1] + episode.terms.reward == pytest.approx(settled)
    expected = {**dict.fromkeys(TERMS, 0.0), **values, "total": settled}
    assert dict(episode.terms.values) == expected
    metrics = episode.metrics
    assert (metrics["context_full"], metrics["pages_seen"], metrics["retrieval_recall"]) == (1, 1, 0)
    assert metrics["reward/total"] == pytest.approx(settled)
    assert episode.terms.tokens == ()


async def test_what_a_query_was_charged_stays(make, sample, play):
    episode = await play(make(), sample(), [search("pagek3")] * 2, drop_last=True)
    assert episode.rewards[1] + episode.terms.reward == 0
    assert episode.terms.values["query_repetition"] == 1
    assert episode.metrics["reward/total"] == pytest.approx(1 - 1)


async def test_a_prompt_that_fills_the_context(make, sample, play):
    episode = await play(make(), sample(), [], drop_last=True)
    assert (episode.terms.reward, episode.metrics["turns"]) == (0, 0)


async def test_notice_of_the_last_turn(make, sample, play):
    env = make(max_turns=3, final_turn_notice=True)
    episode = await play(env, sample(), [fetch(1), fetch(2), answer("blue")])
    assert lines(episode.results[0])[-1] == "</result>"
    assert lines(episode.results[1])[-2:] == ["</result>", "This is your last turn: reason briefly and answer."]


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


async def test_numbers_by_characters_are_not_silent(make, sample, play, caplog):
    alden._warn_of_characters.cache_clear()
    with caplog.at_level(logging.WARNING):
        await play(make(), sample(answers=("blue",)), [answer("24")])
        assert caplog.records == []
        for _ in range(2):
            episode = await play(make(), sample(answers=("24",)), [answer("42")])
    assert [record.name for record in caplog.records] == ["docagent_rl.envs.alden"]
    assert "numeric_metric" in caplog.text
    assert (episode.metrics["answer_char_f1"], episode.metrics["answer_word_f1"]) == (1, 0)
    quiet = await play(make(numeric_metric="anls"), sample(answers=("24",)), [answer("42")])
    assert quiet.rewards == [0]


class Broken:
    def search(self, *_, **__):
        raise ConnectionError("retriever down")


@pytest.mark.parametrize("which", ["retriever", "text_retriever"])
async def test_service_failures_are_no_rewards(make, services, sample, which):
    broken = RetrieverService(Broken(), attempts=2, backoff_s=0)
    parts = {"retriever": services.retriever, "text_retriever": services.retriever, which: broken}
    env = make(modality="hybrid", services=EnvServices(services.store, judge=services.judge, **parts))
    env.reset(sample())
    with pytest.raises(InfrastructureError, match="retriever down"):
        await env.step(AssistantTurn(search("pagek3")))


async def test_misuse(make, sample, play):
    env = make()
    with pytest.raises(RuntimeError, match="reset"):
        await env.step(AssistantTurn("a"))
    await play(env, sample(), [answer("blue")])
    with pytest.raises(RuntimeError, match="answered"):
        await env.step(AssistantTurn("a"))
    with pytest.raises(RuntimeError, match="answered"):
        await env.conclude(EndReason.CONTEXT_FULL)
    env.reset(sample())
    assert env.metrics()["turns"] == 0
