"""What the turns of ALDEN are paid in play."""

from __future__ import annotations

import logging

import pytest

from docagent_rl.envs.base import EndReason
from docagent_rl.systems.alden import env as alden
from docagent_rl.systems.alden.answer_reward import REFUSAL
from docagent_rl.systems.alden.config import AldenConfig
from tests.systems.alden.play import answer, fetch, lines, search

GAMMA = 0.9
UNANSWERABLE = {"answers": (), "answerable": False, "evidence_pages": ()}
QUERIES = ["capital expenditure by region 2019", "table of capital expenditure by region"]


# section 5.7 of the specification: does stalling pay?
@pytest.mark.parametrize(
    ("variant", "calls", "value"),
    [("paper", 1, 5.5), ("paper", 5, 7.0475), ("released", 1, 5.5), ("released", 5, 3.9525)],
)
async def test_what_repeated_searches_are_worth(make, sample, play, variant, calls, value):
    episode = await play(make(variant), sample(), [search("pagek3")] * calls + [answer("blue")])
    discounted = sum(GAMMA**turn * reward for turn, reward in enumerate(episode.rewards))
    assert discounted == pytest.approx(value, abs=1e-4)
    assert episode.metrics["repeated_calls"] == calls - 1
    assert episode.metrics["repeated_call_rate"] == pytest.approx((calls - 1) / calls)
    # the paper charges repeated queries by their tokens
    charged = sum(term.reward for result in episode.results for term in result.terms.tokens)
    assert charged == pytest.approx(-(calls - 1) if variant == "paper" else 0)


@pytest.mark.parametrize(("variant", "repeat"), [("paper", 0.5), ("released", 0.0)])
async def test_what_a_repeated_fetch_is_worth(make, sample, play, variant, repeat):
    episode = await play(make(variant, fetch_syntax="plain"), sample(), [fetch(3), fetch(3)])
    assert episode.rewards == [1.0, repeat]
    assert episode.results[1].terms.values["fetch_repetition"] == 1


@pytest.mark.parametrize(
    ("variant", "rewards"), [("paper", [0.1353, 0.1353, 0.0498]), ("released", [1.0, 0.1104, 0.0669])]
)
async def test_fetches_in_a_longer_document(make, sample, play, variant, rewards):
    """Document M with pages 2 and 6 gold; like 7 and 11 of the specification's example."""
    question = sample(doc_id="M", evidence_pages=(2, 6))
    turns = [fetch(2), fetch(4), fetch(7)]
    episode = await play(make(variant, fetch_syntax="plain"), question, turns)
    assert episode.rewards == pytest.approx(rewards, abs=5e-5)


@pytest.mark.parametrize(
    ("variant", "search_of", "rewards"),
    [
        ("paper", {"top_k": 4, "pages_per_search": 3}, [2 / 3, 2 / 3]),
        ("released", {}, [2, 0]),
        ("released", {"top_k": 1, "pages_per_search": 1}, [1, 1]),
    ],
)
async def test_search_precision_and_new_pages(make, sample, play, variant, search_of, rewards):
    turns = [search("everypage"), search("everypage pagek3")]
    env = make(variant, search=search_of, query_repetition={"enabled": False})
    assert (await play(env, sample(evidence_pages=(1, 3)), turns)).rewards == pytest.approx(rewards)


async def test_query_penalties_lie_on_their_words(make, sample, play):
    episode = await play(make(), sample(), [search(query) for query in QUERIES])
    assert episode.results[0].terms.tokens == ()
    text, terms = search(QUERIES[1]), episode.results[1].terms
    charged = {text[slice(*term.span)]: term.reward for term in terms.tokens}
    assert charged == pytest.approx(
        {"capital": -1 / 15, "expenditure": -2 / 15, "by": -2 / 15, "region": -1 / 15}
    )
    assert {term.name for term in terms.tokens} == {"query_repetition"}
    assert sum(term.value for term in terms.tokens) == pytest.approx(0.4)
    assert (terms.reward, terms.values["query_repetition"]) == (0, pytest.approx(0.4))
    assert terms.values["total"] == episode.metrics["reward/total"] == pytest.approx(-0.4)


async def test_query_penalties_of_the_release(make, sample, play):
    env = make("released", query_repetition={"enabled": True})
    episode = await play(env, sample(), [search(query) for query in QUERIES])
    values = [term.reward for term in episode.results[1].terms.tokens]
    assert values == pytest.approx([-0.025, -0.05, -0.05, -0.025])


async def test_malformed_queries_are_not_charged_twice(make, sample, play):
    episode = await play(make(), sample(), [search("a b c"), "<search>a b c</search>"])
    assert (episode.rewards, episode.results[1].terms.tokens) == ([0, -1], ())


@pytest.mark.parametrize(
    ("variant", "changes", "said", "reward"),
    [
        ("paper", UNANSWERABLE, REFUSAL, 5.0),
        ("released", UNANSWERABLE, REFUSAL, 5.0),
        ("released", UNANSWERABLE, "so the problem is not answerable", 5 * 2 * 4 / 9),
        ("released", UNANSWERABLE, "blue", -2.0),
        ("released", {}, REFUSAL, -5.0),
        ("released", {"answers": (REFUSAL,)}, "blue", -2.0),
        ("released", {"answers": (REFUSAL, "blue")}, "blue", 5.0),
        ("released", {"answers": (REFUSAL, "blue")}, REFUSAL, 5.0),
        ("released", {"answers": ("yes",)}, "yes it is", 0.0),
        ("paper", {"answers": ("24",)}, "42", 5.0),
        ("released", {"answers": ("24",)}, "42", 0.0),
    ],
)  # fmt: skip
async def test_answers(make, sample, play, variant, changes, said, reward):
    episode = await play(make(variant), sample(**changes), [answer(said)])
    assert episode.rewards == pytest.approx([reward])


async def test_paper_refusals_are_scored_as_texts(make, sample, play):
    wrong = await play(make(), sample(), [answer(REFUSAL)])
    missed = await play(make(), sample(**UNANSWERABLE), [answer("blue")])
    assert 0 < wrong.rewards[0] < 5
    assert 0 < missed.rewards[0] < 5
    assert (missed.metrics["unanswerable"], wrong.metrics["refused"]) == (1, 1)


@pytest.mark.parametrize(("variant", "paid"), [("paper", [0, -0.5, -0.5, 5]), ("released", [0, 0, 0, 5])])
async def test_without_evidence(make, sample, play, variant, paid):
    """The paper charges repetition still; the release pays and charges nothing."""
    turns = [search("pagek3"), fetch(3), fetch(9), answer(REFUSAL)]
    episode = await play(make(variant, fetch_syntax="plain"), sample(**UNANSWERABLE), turns)
    assert episode.rewards == paid
    assert (episode.metrics["has_gold"], episode.metrics["refusal_accuracy"]) == (0, 1)
    assert "retrieval_f1" not in episode.metrics
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


async def test_no_room_ends_the_episode_in_the_release(make, sample, play):
    env = make("released", image_budget={"images": 2})
    episode = await play(env, sample(), [search("pagek3"), search("everypage")])
    assert episode.results[-1].end is EndReason.IMAGE_LIMIT
    # the turn was the last and no answer
    assert episode.rewards == [1, -1]
    assert (episode.metrics["pages_seen"], episode.metrics["reward/total"]) == (1, 0)
    mixed = make(image_budget={"images": 1, "on_full": "end"}, search={"top_k": 5, "pages_per_search": 3})
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
        # what a query was charged on its tokens stays
        ("paper", search("pagek4"), 0.0, 0.0, {"query_repetition": 1.0, "total": -1.0}),
    ],
)
async def test_a_result_that_was_dropped(make, sample, play, variant, turn, paid, settled, values):
    episode = await play(make(variant), sample(), [search("pagek4"), turn], drop_last=True)
    assert episode.rewards[1] == pytest.approx(paid)
    assert episode.rewards[1] + episode.terms.reward == pytest.approx(settled)
    nothing = dict.fromkeys(AldenConfig.for_variant(variant).terms, 0.0)
    assert dict(episode.terms.values) == {**nothing, "total": settled, **values}
    metrics = episode.metrics
    assert (metrics["context_full"], metrics["pages_seen"], metrics["retrieval_recall"]) == (1, 1, 0)
    assert metrics["reward/total"] == pytest.approx(episode.terms.values["total"])
    assert episode.terms.tokens == ()


async def test_numbers_by_characters_are_not_silent(make, sample, play, caplog):
    alden._warn_of_characters.cache_clear()
    with caplog.at_level(logging.WARNING):
        await play(make(), sample(answers=("blue",)), [answer("24")])
        assert caplog.records == []
        for _ in range(2):
            episode = await play(make(), sample(answers=("24",)), [answer("42")])
    assert [record.name for record in caplog.records] == ["docagent_rl.systems.alden.env"]
    assert "numeric_metric" in caplog.text
    assert (episode.metrics["answer_char_f1"], episode.metrics["answer_word_f1"]) == (1, 0)
    quiet = await play(make(numeric_metric="anls"), sample(answers=("24",)), [answer("42")])
    assert quiet.rewards == [0]
