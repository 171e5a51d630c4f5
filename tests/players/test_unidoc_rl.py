"""UniDoc-RL: 200 questions for an oracle and 200 for an adversary, in both variants."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv
from tests.players.attacks import Voice, missed, sealed
from tests.players.corpus import LIE
from tests.players.readers import tagged_answer
from tests.players.referee import Limits, check, play
from tests.players.unidoc_table import Table, total
from tests.systems.unidoc_rl.play import adversary, oracle

VARIANTS = ["paper", "released"]
TURNS = {"paper": 10, "released": 11}
TAGS = ("search", "select", "bbox", "answer")
VOICE = Voice(
    core=lambda text: f"<answer>{text}</answer>",
    turn=lambda block: f"<think>so</think>{block}",
    search=lambda query: f"<search>{query}</search>",
    calls=(lambda text: f"<select>{text}</select>", lambda text: f"<bbox>{text}</bbox>"),
    boxes=lambda text: f"<bbox>{text}</bbox>",
    wrapper=("think", "information"),
)


def limits(variant):
    """At most 22 + 3 images; a strip with sides of 1 to 200 may take a few more than 512 tokens."""
    return Limits(turns=TURNS[variant], images=25, tokens=25 * 700, reward=(0.0, 1.0))


def make(variant, services):
    return UniDocEnv(UniDocConfig.for_variant(variant, allow_empty_gold=True), services)


def shown_size(variant, store, ref):
    """How large a page is shown: what the agent sees."""
    return UniDocConfig.for_variant(variant).display.shown(store.page(ref).size)


def rehearsed(corpus, record):
    """What the oracle will be shown: three of the ten best pages, less those selected."""
    table, taken, at = Table(record), [], {}
    for page in sorted(record.gold_pages):
        pages = [hit for hit in corpus.hits(corpus.query(*page), 10) if hit not in taken][:3]
        at[page] = pages.index(page)
        taken.append(page)
        table.searches.append((pages, page, [(page, b) for b in record.evidence_boxes.get(page[1], ())]))
    return table, at


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_oracle_gets_the_maximum(library, services, clerk, variant):
    full = 0
    for record in library.questions:
        if not record.gold_pages:
            continue
        table, at = rehearsed(library, record)
        size = shown_size(variant, library.store, PageRef(record.doc_id, 1))
        turns = list(oracle(record, size, library.query, lambda *page, at=at: at[page]))
        game = await play(make(variant, services), record, turns)
        check(game, limits(variant))
        terms = table.terms(variant, form=1.0, outcome=1.0)
        assert game.values == pytest.approx({**terms, "total": total(variant, terms)})
        assert game.pay == pytest.approx([0.0] * (len(turns) - 1) + [total(variant, terms)])
        assert clerk.asked.pop() == record.answers[0]
        full += game.pay[-1] == pytest.approx(1.0)
    assert full == sum(bool(record.gold_pages) for record in library.questions) >= 150


@pytest.mark.parametrize("variant", VARIANTS)
async def test_an_unanswerable_question_is_worth_all_but_the_ranking(library, services, variant):
    """Any search, its first candidate, no box, a refusal: 0.9 either way."""
    records = [record for record in library.questions if not record.answers]
    for record in records:
        turns = [
            f"<search>{record.question}</search>",
            "<select>0</select>",
            f"<information>It is not there.</information><answer>{NOT_ANSWERABLE}</answer>",
        ]
        game = await play(make(variant, services), record, turns)
        check(game, limits(variant))
        table = Table(record)
        pages = library.hits(record.question, 10)[:3]
        table.searches.append((pages, pages[0], []))
        terms = table.terms(variant, form=1.0, outcome=1.0)
        assert terms["search_ndcg"] == 0
        assert game.pay == pytest.approx([0.0, 0.0, total(variant, terms)])
        assert game.pay[-1] == pytest.approx(0.9)
    assert len(records) >= 10


def good_calls(corpus, record):
    searches = [f"<search>{corpus.query(*page)}</search>" for page in sorted(record.gold_pages)]
    return [*searches, "<search>everypage</search>", "<select>0</select>", "<select>1</select>",
            "<bbox>[[10, 10, 200, 300], [0, 0, 9000, 9000]]</bbox>", "<information>seen</information>",
            "<information>seen</information><search>page report</search>"]  # fmt: skip


def retold(game, variant, store):
    """The searches of an episode from the records of its turns; boxes from the text of the turn."""
    table, view = Table(game.record), None
    for turn, result, effect in zip(game.turns, game.results, game.effects, strict=True):
        match effect["kind"]:
            case "candidates":
                pages = [_page(page["page"]) for page in effect["pages"]]
                table.searches.append((pages, None, []))
                view = None
            case "selection":
                pages = table.searches[-1][0]
                assert _page(effect["page"]) == pages[_index(turn, result, variant, len(pages))]
                table.searches[-1] = (pages, _page(effect["page"]), table.searches[-1][2])
                view = _page(effect["page"])
            case "crop" if view:
                pages, chosen, before = table.searches[-1]
                if not before:
                    size = shown_size(variant, store, PageRef(*view))
                    drawn = [(view, box) for box in _drawn(turn, result, size)]
                    table.searches[-1] = (pages, chosen, drawn)
                view = None
    return table


def _page(name):
    doc_id, _, page = name.rpartition("#")
    return doc_id, int(page)


def _index(turn, result, variant, count):
    """The index that a turn says; only as released, one that is none stands for the first candidate."""
    said = turn.text[slice(*result.info["action"]["argument"])].strip()
    good = said.isascii() and said.isdecimal() and len(said) < 9 and int(said) < count
    assert good or variant == "released"
    return int(said) if good else 0


def _drawn(turn, result, size):
    """The boxes that a turn says, as fractions of the page, clamped to it."""
    boxes = json.loads(turn.text[slice(*result.info["action"]["argument"])])
    boxes = boxes if isinstance(boxes[0], list) else [boxes]
    return [[min(max(edge / side, 0), 1) for edge, side in zip(box, size * 2, strict=True)] for box in boxes]


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_adversary_gets_nothing_by_text(hostile, hostile_services, clerk, variant):
    ends, effects, played = set(), set(), []
    for number, record in enumerate(hostile.questions):
        rng = random.Random(number)
        references = record.answers or (NOT_ANSWERABLE,)
        scripts = (
            sealed(rng, VOICE, references[0], good_calls(hostile, record), number),
            itertools.islice(adversary(rng), 14),
        )
        for is_sealed, script in zip((True, False), scripts, strict=True):
            clerk.asked.clear()
            game = await play(make(variant, hostile_services), record, script)
            check(game, limits(variant))
            answer = tagged_answer(game.turns[-1], TAGS, notes=("information",))
            answered = game.results[-1].end is EndReason.ANSWERED
            assert answered is (answer is not None)
            assert not (answered and is_sealed)
            right = 0.0
            if clerk.asked:
                assert clerk.asked == [answer]
                right = await clerk.judge("", references, answer)
            form = _form(variant, game, answered)
            terms = retold(game, variant, hostile.store).terms(variant, form=form, outcome=right)
            assert game.values == pytest.approx({**terms, "total": total(variant, terms)})
            assert game.pay[:-1] == [0.0] * (len(game.pay) - 1)
            if is_sealed:
                assert game.values["outcome"] == 0
                assert game.values["format"] == 0 or variant == "released"
                assert game.pay[-1] <= 0.35
            ends.add(game.results[-1].end)
            played += game.turns
            effects |= {effect["kind"] for effect in game.effects}
    assert not missed(VOICE, LIE, played)
    assert ends >= {EndReason.ANSWERED, EndReason.TURN_LIMIT}
    assert effects >= {"candidates", "selection", "crop", "feedback"}


def _form(variant, game, answered):
    if variant == "paper":
        return float(answered and all(result.info["valid"] for result in game.results))
    noted = any(
        turn.text[start:end].strip() and turn.text[:start].endswith("<information>")
        for turn, result in zip(game.turns, game.results, strict=True)
        for start, end in result.info["notes"]
    )
    if not (game.ran("search") and game.ran("select") and noted):
        return 0.0
    return 1.0 if answered else 0.5
