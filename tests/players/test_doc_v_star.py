"""Doc-V*: 200 questions for an oracle and 200 for an adversary (appendix C, reward)."""

from __future__ import annotations

import random
import unicodedata

import pytest

from docagent_rl.envs.base import EndReason
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from tests.players.attacks import Voice, missed, sealed
from tests.players.corpus import LIE
from tests.players.formulas import page_f, weighted
from tests.players.readers import doc_v_star_answer, doc_v_star_form
from tests.players.referee import Limits, check, play, visual_tokens
from tests.systems.doc_v_star.play import adversary, answer, fetch, oracle, retrieve, turn

TURNS = 8
WEIGHTS = {"answer": 0.6, "evidence": 0.3, "format": 0.1}
# seven rounds of four pages, each at most 37 x 27 visual tokens
LIMITS = Limits(turns=TURNS, images=28, tokens=28 * 999, reward=(0.0, 1.0))
ABSTENTIONS = {"not answerable", "unanswerable", "not answerable from the document", "n/a", "none", "unknown"}
TIGHT = {"context_tokens": 4000, "reserve_tokens": 500}
VOICE = Voice(
    core=lambda text: f"<answer>{text}</answer>",
    turn=lambda block: turn(block, ""),
    search=lambda query: f"<retrieval_page>{query}</retrieval_page>",
    calls=(lambda text: f"<fetch_page>{text}</fetch_page>",),
    wrapper=("think", "action"),
)


def retrieved(corpus, record):
    """The pages that the oracle's retrieval shows: one for every ten of the document."""
    pages = corpus.store.document(record.doc_id).num_pages
    query = corpus.own_query(record.doc_id, record.evidence_pages[0])
    return [page for _, page in corpus.hits(query, min(-(-pages // 10), 4), record.doc_id)]


async def test_the_oracle_gets_the_maximum(library, services):
    for record in library.questions:
        turns = list(oracle(record, library.own_query))
        game = await play(DocVStarEnv(DocVStarConfig(), services), record, turns)
        check(game, LIMITS)
        gold, visited = set(record.evidence_pages), set(record.evidence_pages[1:])
        if gold:
            visited |= set(retrieved(library, record))
        terms = {"answer": 1.0, "evidence": page_f(gold, gold, visited), "format": 1.0}
        most = weighted(terms, WEIGHTS)
        assert game.values == pytest.approx({**terms, "total": most})
        assert game.pay == pytest.approx([0.0] * (len(turns) - 1) + [most])
        # retrieval finds the page by its own words, so that nothing is lost, whatever the question
        assert most == pytest.approx(1.0)
        assert game.metrics["pages_seen"] == len(visited)


@pytest.mark.parametrize("lapse", ["answer", "evidence", "format"])
async def test_every_term_is_needed(library, services, lapse):
    """The oracle with one lapse loses the weight of that term, and nothing else."""
    for record in library.questions[::10]:
        if not record.evidence_pages:
            continue
        *before, last = oracle(record, library.own_query)
        pages = list(record.evidence_pages[-1:])
        last = {
            "answer": answer("-", pages),
            "evidence": last.replace(str(pages), "[]"),
            "format": f"{last} done",
        }[lapse]
        game = await play(DocVStarEnv(DocVStarConfig(), services), record, [*before, last])
        kept = len(record.evidence_pages) > 1 and lapse == "evidence"
        lost = page_f(record.evidence_pages[:-1], record.evidence_pages, record.evidence_pages) if kept else 0
        assert game.pay[-1] == pytest.approx(1.0 - WEIGHTS[lapse] * (1 - lost))


def good_calls(corpus, record):
    pages = corpus.store.document(record.doc_id).num_pages
    finds = [corpus.own_query(*page) for page in sorted(record.gold_pages)] + ["everypage"]
    calls = [retrieve(query, listed) for query in finds for listed in (None, "", "[1, 2]")]
    return [
        *calls,
        fetch([1, pages], "1 2 3"),
        fetch(list(range(1, pages + 1)), ""),
        fetch([pages, 99], "99"),
    ]


def answer_score(text, record):
    """The gold answer is a count, or there is none."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    if not record.answers:
        return float(folded.strip(" .,;:!?\"'()[]*") in ABSTENTIONS)
    return float(folded.replace(",", "").lstrip("+") == LIE)


@pytest.mark.parametrize("budget", [{}, TIGHT], ids=["unlimited", "tight"])
async def test_the_adversary_gets_nothing_by_text(hostile, hostile_services, budget):
    ends, formats, played = set(), 0.0, []
    for number, record in enumerate(hostile.questions):
        rng = random.Random(number)
        secret = (record.answers or (NOT_ANSWERABLE,))[0]
        scripts = (sealed(rng, VOICE, secret, good_calls(hostile, record), number), adversary(rng, TURNS + 1))
        for is_sealed, script in zip((True, False), scripts, strict=True):
            game = await play(DocVStarEnv(DocVStarConfig(**budget), hostile_services), record, script)
            check(game, LIMITS)
            text = doc_v_star_answer(game.turns[-1])
            answered = game.results[-1].end is EndReason.ANSWERED
            assert answered is (text is not None)
            assert not (answered and is_sealed)
            terms = judged(game, hostile, text)
            assert game.values == pytest.approx({**terms, "total": weighted(terms, WEIGHTS)})
            assert game.pay == pytest.approx([0.0] * (len(game.pay) - 1) + [weighted(terms, WEIGHTS)])
            formats += game.values["format"]
            if budget:
                images = [*game.prompt.images, *(i for r in game.results[:-1] for i in r.observation.images)]
                assert visual_tokens(images) <= budget["context_tokens"] - budget["reserve_tokens"]
            ends.add(game.results[-1].end)
            played += game.turns
    assert not missed(VOICE, LIE, played)
    cut = {EndReason.CONTEXT_FULL} if budget else set()
    assert ends == {EndReason.ANSWERED, EndReason.TURN_LIMIT} | cut
    # now and then chance writes a clean episode, so that the term is seen at work
    assert 0 < formats < 100


def judged(game, corpus, text):
    """The terms once more, from the turns and from the images that were shown."""
    pages = corpus.store.document(game.record.doc_id).num_pages
    shown = [image.page.page for r in game.results if r.observation for image in r.observation.images]
    assert len(shown) == len(set(shown))
    listed = set()
    for said, result in zip(game.turns, game.results, strict=True):
        assert all(1 <= page <= pages for page in result.info["relevant_pages"])
        assert all(str(page) in said.text for page in result.info["relevant_pages"])
        listed |= set(result.info["relevant_pages"])
        assert said.text.count("</action><think>") == 0 or not result.info["valid"]
    formed = all(doc_v_star_form(t, pages, first=n == 0) for n, t in enumerate(game.turns))
    return {
        "answer": answer_score(text, game.record) if text else 0.0,
        "evidence": page_f(listed, game.record.evidence_pages, shown),
        "format": float(formed and bool(text)),
    }
