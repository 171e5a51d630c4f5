"""More turns, more pay? Sessions of all systems, padded with rounds that lead to nothing.

Limits on turns and images are lifted, so that nothing but the reward stands in the way of junk. What a
formula pays for nonetheless is written down in `PAYS`, and docs/variants.md says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from docagent_rl.checks.variant_table import PADDING
from docagent_rl.documents import PageRef
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv
from tests.players.attacks import paddings
from tests.players.referee import play
from tests.players.test_mm_doc_r1 import knowing
from tests.systems.alden import play as alden_play
from tests.systems.doc_v_star import play as doc_v_star_play
from tests.systems.mm_doc_r1 import play as mm_doc_r1_play
from tests.systems.unidoc_rl import play as unidoc_rl_play
from tests.systems.vrag_rl import play as vrag_rl_play

MANY = 24
ROUNDS = (1, 3)
NOWHERE = "zzyzx qwxq"

# the junk that a formula pays for: (system, variant, session, kind)
PAYS = {
    ("alden", "paper", "oracle", "reworded"),
    ("alden", "paper", "oracle", "refetched"),
    ("alden", "paper", "oracle", "near"),
    ("alden", "released", "oracle", "near"),
    ("unidoc_rl", "released", "wrong choice", "irrelevant"),
    ("unidoc_rl", "released", "no boxes", "irrelevant"),
}


@dataclass
class Case:
    """Sessions of one system and one question.

    Args:
        env: makes an environment.
        sessions: turns by name; `oracle` is paid the maximum, or all that it can be without stalling.
        junk: turns of one round by the name of its kind.
        correcting: kinds that may put right what a session other than the oracle got wrong.
    """

    env: Callable
    sessions: Mapping[str, list[str]]
    junk: Mapping[str, list[str]]
    correcting: frozenset[str] = field(default_factory=frozenset)


def other_pages(corpus, record, count=3):
    """Pages of another document whose own words bring up nothing that is gold, with those words."""
    for doc_id, page in sorted(corpus.words):
        query = corpus.query(doc_id, page)
        if doc_id != record.doc_id and not set(corpus.hits(query, 10)) & set(record.gold_pages):
            yield query
            count -= 1
        if not count:
            return


def alden(corpus, services, record, variant):
    gold = sorted(record.evidence_pages)
    pages = corpus.store.document(record.doc_id).num_pages
    number = (lambda page: f"{page}-th") if variant == "released" else str
    words = corpus.queries(record.doc_id, gold[0])
    near = sorted({*range(1, pages + 1)} - {*gold}, key=lambda page: abs(page - gold[0]))
    junk = {
        "repeated": [alden_play.search(corpus.own_query(record.doc_id, gold[0]))],
        "empty": [alden_play.search(NOWHERE)],
        "malformed": [f"<search>{words[0]}</search>"],
        "no page": [alden_play.fetch(number(pages + 1))],
        "near": [alden_play.fetch(number(near[0]))],
        "refetched": [alden_play.fetch(number(gold[0]))],
        "reworded": [alden_play.search(words[-1])],
    }
    room = {"images": 99, "image_tokens": None}
    config = AldenConfig.for_variant(variant, max_turns=MANY, image_budget=room)
    oracle = list(alden_play.oracle(record, corpus.own_query))
    return Case(lambda: AldenEnv(config, services), {"oracle": oracle}, junk)


def doc_v_star(corpus, services, record, variant):
    oracle = list(doc_v_star_play.oracle(record, corpus.own_query))
    listed = [str(page) for page in record.evidence_pages]
    junk = {
        "repeated": [doc_v_star_play.retrieve(corpus.own_query(record.doc_id, int(listed[0])), "")],
        "irrelevant": [doc_v_star_play.fetch("[1]", "")],
        "empty": [doc_v_star_play.retrieve(NOWHERE, "")],
        "blank": [doc_v_star_play.retrieve(" ", "")],
        "invalid": ["nonsense"],
    }
    sessions = {
        "oracle": oracle,
        "wrong answer": [*oracle[:-1], doc_v_star_play.answer("-", ", ".join(listed))],
        "nothing listed": [*oracle[:-1], doc_v_star_play.answer(record.answers[0], "")],
    }
    config = DocVStarConfig.for_variant(variant, max_turns=MANY)
    return Case(lambda: DocVStarEnv(config, services), sessions, junk)


def mm_doc_r1(corpus, services, record, variant):
    oracle = list(mm_doc_r1_play.oracle(record))
    gold = set(record.evidence_pages)
    aside = next(p for p in range(1, corpus.store.document(record.doc_id).num_pages + 1) if p not in gold)
    read = f'<read>[{{"page_ids": [{min(gold)}], "query": "q"}}]</read>'
    junk = {
        "repeated": [oracle[0]],
        "repeated reading": [f"Again. {read}"],
        "irrelevant": [f'Aside. <read>[{{"page_ids": [{aside}], "query": "q"}}]</read>'],
        "empty": [f'Nowhere. <search>["{NOWHERE}"]</search>'],
        # two invalid steps in a row end an episode
        "invalid": ["nonsense", oracle[0]],
    }
    sessions = {"oracle": oracle, "nothing read": [oracle[0], oracle[-1]]}
    config = MMDocConfig.for_variant(variant, max_steps=MANY)
    return Case(
        lambda: MMDocEnv(config, knowing(services, record)), sessions, junk, frozenset({"repeated reading"})
    )


def unidoc_rl(corpus, services, record, variant):
    config = UniDocConfig.for_variant(
        variant, max_turns=2 * MANY, image_limit=999, search={"exclude_selected": True}
    )
    at, taken = {}, []
    for page in sorted(record.gold_pages):
        found = [hit for hit in corpus.hits(corpus.query(*page), 20) if hit not in taken][:3]
        at[page] = found.index(page)
        taken.append(page)
    size = config.display.shown(corpus.store.page(PageRef(record.doc_id, 1)).size)
    oracle = list(unidoc_rl_play.oracle(record, size, corpus.query, lambda *page: at[page]))
    page = min(record.gold_pages)
    wrong = [turn.replace(f"<select>{at[page]}<", f"<select>{2 - at[page]}<") for turn in oracle]
    junk = {
        "repeated": [f"<search>{corpus.query(*page)}</search>", "<select>0</select>"],
        "empty": [f"<search>{NOWHERE}</search>"],
        "irrelevant": [f"<search>{next(other_pages(corpus, record))}</search>", "<select>0</select>"],
        "junk boxes": [
            f"<search>{next(other_pages(corpus, record))}</search>",
            "<select>0</select>",
            "<bbox>[[5, 5, 60, 60]]</bbox>",
            "<select>0</select>",
        ],
        "invalid": ["nonsense"],
        "no index": ["<select>99</select>"],
    }
    sessions = {
        "oracle": oracle,
        "wrong choice": [turn for turn in wrong if "<bbox>" not in turn],
        "wrong answer": [*oracle[:-1], f"<information>seen</information><answer>{NOWHERE}</answer>"],
    }
    if any("<bbox>" in turn for turn in oracle):
        sessions["no boxes"] = [turn for turn in oracle if "<bbox>" not in turn]
    return Case(lambda: UniDocEnv(config, services), sessions, junk, frozenset({"repeated", "no index"}))


def vrag_rl(corpus, services, record, variant):
    oracle = list(vrag_rl_play.oracle(record, corpus.query))
    junk = {
        "repeated": [oracle[0]],
        "empty": [f"<search>{NOWHERE}</search>"],
        "irrelevant": [f"<search>{next(other_pages(corpus, record))}</search>"],
        "junk box": ["<bbox>[5, 5, 60, 60]</bbox>"],
        "invalid": ["nonsense"],
    }
    sessions = {"oracle": oracle, "wrong answer": [*oracle[:-1], f"<answer>{NOWHERE}</answer>"]}
    config = VragConfig.for_variant(variant, max_turns=MANY)
    return Case(lambda: VragEnv(config, services), sessions, junk, frozenset({"repeated"}))


CASES = {
    (make, variant)
    for make in (alden, doc_v_star, mm_doc_r1, unidoc_rl, vrag_rl)
    for variant in (("paper",) if make in (doc_v_star, mm_doc_r1) else ("paper", "released"))
}


def questions(library):
    """Some questions of every document that have an answer, with and without gold boxes."""
    answered = [record for record in library.questions if record.answers and record.gold_pages]
    return answered[::12]


@pytest.mark.parametrize(
    ("make", "variant"),
    sorted(CASES, key=lambda case: (case[0].__name__, case[1])),
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
async def test_more_turns_are_not_paid_more(library, services, make, variant):
    paid, tried = set(), set()
    for number, record in enumerate(questions(library)):
        case = make(library, services, record, variant)
        for name, turns in case.sessions.items():
            base = sum((await play(case.env(), record, turns)).pay)
            for kind, junk in case.junk.items():
                if name != "oracle" and kind in case.correcting:
                    continue
                scripts = [
                    script
                    for rounds in ROUNDS
                    for place, script in paddings(random.Random(number), turns, junk, rounds=rounds)
                    # pages that were shown early are not found later, which may put a gold page first
                    if name == "oracle" or place == "late"
                ]
                for script in scripts:
                    tried.add((make.__name__, variant, name, kind))
                    if sum((await play(case.env(), record, script)).pay) > base + 1e-9:
                        paid.add((make.__name__, variant, name, kind))
    known = {case for case in PAYS if case[:2] == (make.__name__, variant)}
    assert known <= tried
    assert paid == known


def test_what_is_paid_for_is_written_down():
    """Per system and variant one paragraph of docs/variants.md."""
    assert {(system, variant) for system, variant, *_ in PAYS} == set(PADDING)
