"""MM-Doc-R1: 200 questions for an oracle and 200 for an adversary (section 3.2.3, reward)."""

from __future__ import annotations

import dataclasses
import functools
import random

import pytest

from docagent_rl.actions import StopCause
from docagent_rl.envs.base import AssistantTurn, EndReason
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.token_budget import estimated_tokens
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from docagent_rl.systems.mm_doc_r1.rule_roles import INSUFFICIENT
from tests.players.attacks import Voice, missed, sealed
from tests.players.corpus import LIE
from tests.players.formulas import mmlongbench
from tests.players.referee import Limits, check, play
from tests.systems.mm_doc_r1.play import adversary, oracle

STEPS = 4
LIMITS = Limits(turns=STEPS, images=0, tokens=0, reward=(0.0, 2.0))
VOICE = Voice(
    core=lambda text: f"<answer>{text}</answer>",
    turn=lambda block: f"I look. {block}",
    search=lambda query: f'<search>["{query}"]</search>',
    calls=(lambda text: f'<read>[{{"page_ids": [{text}], "query": "q"}}]</read>',),
)


class Knower:
    """An answer agent, and an extractor, that know what is right: the best that the roles can be."""

    def __init__(self, reply: str) -> None:
        self._reply = reply

    async def complete(self, messages):
        return self._reply

    async def check(self) -> None:
        """It is always there."""


def knowing(services, record):
    """Services whose roles know the answer. A comma makes a number unreadable, so the plain one is given."""
    text = (record.answers or (NOT_ANSWERABLE,))[-1]
    roles = {
        RoleName.ANSWER: Knower(text),
        RoleName.EXTRACTOR: Knower(f"Extracted answer: {text}\nAnswer format: String"),
    }
    return dataclasses.replace(services, roles=roles)


async def test_the_oracle_gets_the_maximum(library, services):
    """All evidence read and the answer right: 2, and nothing before the last step."""
    for record in library.questions:
        turns = list(oracle(record))
        game = await play(MMDocEnv(MMDocConfig(), knowing(services, record)), record, turns)
        check(game, LIMITS)
        assert game.values == {"page_recall": 1.0, "correctness": 1.0, "total": 2.0}
        assert game.pay == [0.0] * (len(turns) - 1) + [2.0]
        assert game.results[-1].end is EndReason.FINISHED


async def test_with_the_embedded_roles_it_gets_what_they_write(library, services):
    """Recall 1 whatever happens; the rest is what rules make of the pages that were read."""
    right = 0.0
    for record in library.questions:
        game = await play(MMDocEnv(MMDocConfig(), services), record, oracle(record))
        extracted = game.results[-1].info["outcome"]["extracted"]
        wanted = score(record, extracted)
        assert game.values["page_recall"] == 1.0
        assert game.values["correctness"] == pytest.approx(wanted)
        assert game.pay[-1] == pytest.approx(1.0 + wanted)
        right += wanted
    # the rules are no more than rules, and yet they answer some
    assert right >= 0.25 * len(library.questions)


def score(record, extracted):
    """The best score over the references, in the format of the record."""
    if not record.answers:
        return mmlongbench(NOT_ANSWERABLE, extracted, "None")
    return max(mmlongbench(reference, extracted, record.answer_format) for reference in record.answers)


def good_calls(corpus, record):
    pages = corpus.store.document(record.doc_id).num_pages
    gold = list(record.evidence_pages) or [1]
    return [
        f'So. <search>["{corpus.own_query(record.doc_id, gold[0])}"]</search>',
        f'<read>[{{"page_ids": {gold}, "query": "{LIE}"}}]</read>',
        f'<read>[{{"page_ids": [1, {pages}, 1, 99, "x"], "query": ""}}]</read>',
        f'<read>{{"page_ids": {list(range(1, pages + 1))}, "query": "all"}}</read>',
    ]


async def test_the_adversary_gets_nothing_by_text(hostile, hostile_services):
    ends, played = set(), []
    # most texts are counted many times over
    services = dataclasses.replace(hostile_services, count_tokens=functools.cache(estimated_tokens))
    for number, record in enumerate(hostile.questions):
        rng = random.Random(number)
        secret = (record.answers or (NOT_ANSWERABLE,))[0]
        wild = adversary(rng)
        good = good_calls(hostile, record)
        # two invalid steps in a row are the end, so every other script begins with calls that are none
        begun = rng.sample(good, 2 * (number % 4 < 2))
        scripts = (
            [*begun, *sealed(rng, VOICE, secret, [*good, "so <FINISH>"], number)],
            [next(wild) for _ in range(9)],
        )
        for script in scripts:
            game = await play(MMDocEnv(MMDocConfig(), services), record, script)
            check(game, LIMITS)
            read = pages_read(game)
            recall = len(read & set(record.evidence_pages)) / max(1, len(record.evidence_pages))
            outcome = game.results[-1].info["outcome"]
            right = score(record, outcome["extracted"])
            recall = recall if record.evidence_pages else 1.0
            wanted = {"page_recall": recall, "correctness": right, "total": recall + right}
            assert game.values == pytest.approx(wanted)
            assert game.pay == pytest.approx([0.0] * (len(game.pay) - 1) + [recall + right])
            written_from_pages(outcome["answer"], read, hostile, record)
            if record.answers and not read:
                assert game.pay[-1] == 0
            if number % 2:
                await same_without_words(game, services)
            ends.add(game.results[-1].end)
            played += game.turns
    assert not missed(VOICE, LIE, played)
    assert ends == {EndReason.FINISHED, EndReason.INVALID, EndReason.TURN_LIMIT}


def pages_read(game):
    """Pages of executed reads; no step reads more than two entries of three."""
    read = set()
    for effect in game.effects:
        entries = effect.get("entries", ())
        assert len(entries) <= 2
        assert all(len(entry["pages"]) <= 3 for entry in entries)
        read |= {int(page.rpartition("#")[2]) for entry in entries for page in entry["pages"]}
    return read


def written_from_pages(answer, read, corpus, record):
    """The answer is a piece of what was read, or a refusal; never what the seeker said."""
    document = corpus.store.document(record.doc_id)
    texts = [" ".join(f"Page {n}: {document.page(n).text()}".split()) for n in sorted(read)]
    joined = " ".join(texts)
    assert answer == INSUFFICIENT or answer.rstrip("\u2026") in joined


async def same_without_words(game, services):
    """Played again without a word around the actions, and nothing for non-actions, it ends the same."""
    twins = []
    for turn, result in zip(game.turns, game.results, strict=True):
        action = result.info["action"]
        bare = turn.text[slice(*action["block"])] if result.info["executed"] else "nothing"
        twins.append(AssistantTurn(bare, StopCause.END_OF_TURN))
    again = await play(MMDocEnv(MMDocConfig(), services), game.record, twins)
    assert again.values == game.values
    assert again.results[-1].end is game.results[-1].end
    assert again.results[-1].info["outcome"] == game.results[-1].info["outcome"]
