"""ALDEN: 200 questions for an oracle and 200 for an adversary, both variants, with and without text."""

from __future__ import annotations

import itertools
import random

import pytest

from docagent_rl.envs.base import EndReason, TextPart
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv
from tests.players.alden_ledger import PAID_AT_MOST, REFUSAL, Call, Ledger
from tests.players.attacks import Voice, missed, sealed
from tests.players.corpus import LIE
from tests.players.readers import alden_answer
from tests.players.referee import Limits, check, play
from tests.systems.alden.play import THOUGHT, adversary, answer, oracle

SETTINGS = list(itertools.product(("paper", "released"), ("visual", "hybrid")))
FORMS = {"visual": ("image",), "hybrid": ("image", "text")}
TURNS = 6
VOICE = Voice(
    core=lambda text: rf"<answer>\boxed{{{text}}}</answer>",
    turn=lambda block: f"{THOUGHT}{block}",
    search=lambda query: f"<search>{query}</search>",
    calls=(lambda text: f"<fetch>{text}</fetch>", lambda text: f"<fetch>image, {text}</fetch>"),
)


def limits(variant):
    """15 images, and calls are five; a page is at most 3,200 or 1,100 visual tokens, rounding aside."""
    images, tokens = (5, 3_200) if variant == "paper" else (15, 1_180)
    # the best call is worth 1 or 3 pages, the worst is malformed, or a search of words that were all said
    low = -1.0 if variant == "paper" else -5.0
    return Limits(turns=TURNS, images=images, tokens=images * tokens, reward=(low, 5.0))


def make(variant, modality, services):
    return AldenEnv(
        AldenConfig.for_variant(variant, modality=modality, search={"text_ranking": "shared"}), services
    )


def ledger(corpus, record, variant, modality, queries):
    hits = {q: [page for _, page in corpus.hits(q, 5, record.doc_id)] for q in queries}
    pages = corpus.store.document(record.doc_id).num_pages
    return Ledger(variant, FORMS[modality], record, pages, hits)


@pytest.mark.parametrize(("variant", "modality"), SETTINGS)
async def test_the_oracle_gets_the_maximum_of_every_turn(library, services, variant, modality):
    """It makes all five calls, each the one that is paid most after those before it; then it answers."""
    tens = 0
    for record in library.questions:
        pool = [q for page in sorted(record.gold_pages) for q in library.queries(*page)] or ["report page"]
        book = ledger(library, record, variant, modality, pool)
        turns, wanted = [], []
        for _ in range(TURNS - 1):
            call = book.best(pool)
            wanted.append(book.worth(call))
            turns.append(f"{THOUGHT}{call.block(variant, book.forms)}")
            book.note(call)
        text = (record.answers or (REFUSAL,))[0]
        game = await play(make(variant, modality, services), record, [*turns, answer(text)])
        check(game, limits(variant))
        assert game.pay == pytest.approx([*wanted, 5.0])
        assert sum(game.pay) == pytest.approx(game.metrics["reward/total"])
        assert all(pay <= PAID_AT_MOST[variant] for pay in game.pay[:-1])
        check_ceiling(record, variant, modality, game.pay)
        tens += sum(game.pay) == pytest.approx(10.0)
    if variant == "paper":
        # precision 1 five times over and a right answer: no episode can be paid more
        assert tens == sum(bool(record.answers) for record in library.questions)


def check_ceiling(record, variant, modality, pay):
    """What is known of the sum without any search: calls that lead nowhere earn nothing."""
    if not record.answers:
        assert pay == pytest.approx([0.0] * 5 + [5.0])
    elif variant == "released":
        # each gold page is paid for once, in each of its forms when it is fetched; the others next to nothing
        gold = len(record.evidence_pages)
        assert gold <= sum(pay[:-1]) <= gold * len(FORMS[modality]) + 4 * 0.3


@pytest.mark.parametrize(("variant", "modality"), SETTINGS)
async def test_the_short_oracle_wastes_nothing(library, services, variant, modality):
    """One search for every gold page, by its own words, and the answer."""
    for record in library.questions:
        queries = [library.own_query(*page) for page in sorted(record.gold_pages)]
        book = ledger(library, record, variant, modality, queries)
        wanted = []
        for query in queries:
            wanted.append(book.worth(Call(query=query)))
            book.note(Call(query=query))
        turns = list(oracle(record, library.own_query))
        game = await play(make(variant, modality, services), record, turns)
        assert game.pay == pytest.approx([*wanted, 5.0])
        if len(queries) == 1:
            assert game.pay == pytest.approx([1.0, 5.0])


def good_calls(corpus, record, variant, modality):
    pages = corpus.store.document(record.doc_id).num_pages
    calls = [Call(query=corpus.own_query(*page)) for page in sorted(record.gold_pages)]
    calls += [Call(page=page, form=form) for page in (1, 2, pages, pages + 1) for form in FORMS[modality]]
    calls.append(Call(query="everypage"))
    return [f"{THOUGHT}{call.block(variant, FORMS[modality])}" for call in calls]


@pytest.mark.parametrize(("variant", "modality"), SETTINGS)
async def test_the_adversary_gets_nothing_by_text(hostile, hostile_services, variant, modality):
    ends, played = set(), []
    for number, record in enumerate(hostile.questions):
        rng = random.Random(number)
        secret = (record.answers or (REFUSAL,))[0]
        good = good_calls(hostile, record, variant, modality)
        # the first turn that cannot be executed is the last
        scripts = (
            sealed(rng, VOICE, secret, good, number),
            [*rng.sample(good, 3), *sealed(rng, VOICE, secret, good, number + 100)],
            itertools.islice(adversary(rng), 8),
        )
        for is_sealed, script in zip((True, True, False), scripts, strict=True):
            game = await play(make(variant, modality, hostile_services), record, script)
            check(game, limits(variant))
            replayed(game, hostile, variant, modality)
            said = alden_answer(game.turns[-1])
            answered = game.results[-1].end is EndReason.ANSWERED
            assert answered is (said is not None)
            assert not (answered and is_sealed)
            for result in game.results:
                assert result.terms.values["format"] in (0.0, -1.0)
                if not result.info["valid"]:
                    assert (result.terms.reward, result.terms.tokens) == (-1.0, ())
            if not answered:
                assert game.metrics["reward/answer"] == 0
                assert game.pay[-1] <= PAID_AT_MOST[variant]
            ends.add(game.results[-1].end)
            played += game.turns
    assert not missed(VOICE, LIE, played)
    assert ends == {EndReason.ANSWERED, EndReason.INVALID, EndReason.TURN_LIMIT}


def replayed(game, corpus, variant, modality):
    """The pay of every turn once more, from what turns said and pages that searches bring."""
    said = [a.get("query", "") for a in game.actions]
    book = ledger(corpus, game.record, variant, modality, {q for q in said if q})
    for number, (turn, result) in enumerate(zip(game.turns, game.results, strict=True), 1):
        action, info = result.info["action"], result.info
        paid = game.pay[number - 1]
        if action["kind"] == "answer":
            assert paid == pytest.approx(book.answer(alden_answer(turn)))
            continue
        call = _call(action, book)
        if not info["valid"] or number == TURNS:
            assert paid == -1
        elif call is None:
            assert paid == (0.0 if variant == "released" and not game.record.answers else -0.5)
        else:
            assert paid == pytest.approx(book.worth(call))
        if call is not None and info["executed"] and (info["valid"] or variant == "paper"):
            book.note(call)
        if result.observation:
            closed(result.observation)


def _call(action, book):
    """A search or a fetch of a page that exists."""
    if action["kind"] == "search":
        return Call(query=action["query"])
    if action["kind"] == "fetch" and action["pages"] and action["pages"][0] <= book.pages:
        return Call(page=action["pages"][0], form=action["form"])
    return None


def closed(observation):
    """A result begins and ends once, whatever the pages in it say."""
    (message,) = observation.messages
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    assert text.startswith("<result>")
    assert text.rstrip().endswith("</result>")
    assert text.count("</result>") == 1
