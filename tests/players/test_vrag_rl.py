"""VRAG-RL: 200 questions for an oracle and 200 for an adversary, in both variants (Eq. 11 and 12)."""

from __future__ import annotations

import itertools
import random

import pytest

from docagent_rl.envs.base import EndReason
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv
from tests.players.attacks import Voice, missed, sealed
from tests.players.corpus import LIE
from tests.players.formulas import ndcg
from tests.players.readers import tagged_answer
from tests.players.referee import Limits, check, play
from tests.systems.vrag_rl.play import adversary, oracle

VARIANTS = ["paper", "released"]
# 5 turns, of which the last shows nothing; 512 visual tokens an image, and rounding may add a row of 40
LIMITS = Limits(turns=5, images=4, tokens=4 * 552, reward=(0.0, 1.0))
VOICE = Voice(
    core=lambda text: f"<answer>{text}</answer>",
    turn=lambda block: f"<think>so</think>{block}",
    search=lambda query: f"<search>{query}</search>",
    calls=(lambda text: f"<bbox>{text}</bbox>",),
    boxes=lambda text: f"<bbox>{text}</bbox>",
)


def total(variant, *, found, right, searched, answered):
    """The reward of an episode: 0.2 and 0.8 as published, 0.2, 0.7 and 0.1 behind a gate as released."""
    if variant == "paper":
        return 0.2 * found + 0.8 * right
    return (0.2 * found + 0.7 * right + 0.1) * (searched and answered)


def pages_shown(corpus, queries):
    """Each search shows the best of ten pages that was not shown before."""
    shown = []
    for query in queries:
        new = [page for page in corpus.hits(query, 10) if page not in shown]
        shown += new[:1]
    return shown


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_oracle_gets_the_maximum(library, services, clerk, variant):
    full = 0
    for record in library.questions:
        turns = list(oracle(record, library.query))
        env = VragEnv(VragConfig.for_variant(variant, allow_empty_gold=True), services)
        game = await play(env, record, turns)
        check(game, LIMITS)
        shown = pages_shown(library, [library.query(*page) for page in sorted(record.gold_pages)])
        found = ndcg(shown, record.gold_pages)
        # without a gold page there is nothing to search for, and a zoom before any search is refused
        searched = bool(record.gold_pages)
        most = total(variant, found=found, right=1, searched=searched, answered=True)
        assert game.pay == pytest.approx([0.0] * (len(turns) - 1) + [most])
        assert game.values["retrieval_ndcg"] == pytest.approx(found)
        full += game.pay[-1] == pytest.approx(1.0)
        assert clerk.asked.pop() == (record.answers or (NOT_ANSWERABLE,))[0] if searched else True
    # every question with an answer is worth everything
    assert full == sum(bool(record.answers) for record in library.questions)


@pytest.mark.parametrize("variant", VARIANTS)
async def test_an_unanswerable_question_is_worth_its_outcome(library, services, variant):
    """Any search will do: 0.8 either way."""
    records = [record for record in library.questions if not record.answers]
    for record in records:
        env = VragEnv(VragConfig.for_variant(variant, allow_empty_gold=True), services)
        turns = [f"<search>{record.question}</search>", f"<answer>{NOT_ANSWERABLE}</answer>"]
        game = await play(env, record, turns)
        assert game.pay == pytest.approx([0.0, 0.8])
    assert len(records) >= 10


def good_calls(corpus, record):
    return [
        f"<think>look</think><search>{corpus.query(*page)}</search>" for page in sorted(record.gold_pages)
    ] + ["<search>everypage</search>", "<bbox>[10, 10, 200, 300]</bbox>", "<bbox>[0, 0, 5000, 5000]</bbox>"]


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_adversary_gets_nothing_by_text(hostile, hostile_services, clerk, variant):
    ends, played = set(), []
    for number, record in enumerate(hostile.questions):
        rng = random.Random(number)
        scripts = (
            sealed(rng, VOICE, (record.answers or (NOT_ANSWERABLE,))[0], good_calls(hostile, record), number),
            itertools.islice(adversary(rng), 9),
        )
        for is_sealed, script in zip((True, False), scripts, strict=True):
            clerk.asked.clear()
            env = VragEnv(VragConfig.for_variant(variant, allow_empty_gold=True), hostile_services)
            game = await play(env, record, script)
            check(game, LIMITS)
            answer = tagged_answer(game.turns[-1], ("search", "bbox", "answer"))
            answered = game.results[-1].end is EndReason.ANSWERED
            assert answered is (answer is not None)
            assert not (answered and is_sealed)
            searched = game.ran("search") > 0
            right = 0.0
            if clerk.asked:
                assert clerk.asked == [answer]
                right = await clerk.judge("", record.answers or (NOT_ANSWERABLE,), answer)
            assert game.values["outcome"] == right
            assert game.values["format"] == float(searched and answered)
            # what was found counts as published, and only behind the gate as released
            shown = [p["page"] for effect in game.effects for p in effect.get("pages", ())]
            found = ndcg(shown, {f"{doc_id}#{page}" for doc_id, page in record.gold_pages})
            wanted = total(variant, found=found, right=right, searched=searched, answered=answered)
            assert game.pay == pytest.approx([0.0] * (len(game.pay) - 1) + [wanted])
            ends.add(game.results[-1].end)
            played += game.turns
    assert not missed(VOICE, LIE, played)
    assert ends == {EndReason.ANSWERED, EndReason.TURN_LIMIT}
