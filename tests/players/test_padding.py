"""Turns that lead to nothing do not raise the reward of trajectories, in any system.

Limits on turns and images are lifted, so that nothing but the reward stands in the way of junk.
What a formula pays for nonetheless is written down in `PAYS`, and docs/variants.md says so.
"""

import pytest

from docagent_rl.systems import SYSTEMS, get_system
from tests.players.alden import Alden, Call
from tests.players.doc_v_star import DocVStar
from tests.players.mm_doc_r1 import MMDoc
from tests.players.referee import play
from tests.players.unidoc_rl import UniDoc
from tests.players.vrag_rl import Vrag
from tests.systems.alden import play as alden_play
from tests.systems.doc_v_star import play as doc_v_star_play

MANY = 24
NOWHERE = "zzyzx qwxq"

# the junk that a formula pays for: (trajectory, kind)
PAYS = {
    ("alden", "paper"): {("oracle", "reworded"), ("oracle", "refetched"), ("oracle", "near")},
    ("alden", "released"): {("oracle", "near")},
    ("unidoc_rl", "released"): {("wrong choice", "irrelevant"), ("no boxes", "irrelevant")},
}


def other_words(corpus, sample):
    """Return words of a page of another document that find no gold page."""
    return next(
        corpus.query(doc_id, page)
        for doc_id, page in sorted(corpus.words)
        if doc_id != sample.doc_id
        and not set(corpus.hits(corpus.query(doc_id, page), 10)) & sample.gold_pages
    )


# Of each system: rules with room for junk; trajectories, of which the oracle's is paid the maximum,
# or all that it can be without stalling; rounds of junk; kinds that may put right what other
# trajectories got wrong.


def alden(corpus, sample, variant):
    room = {"images": 99}
    rules = Alden(variant, "visual").lifted(max_turns=MANY, image_budget=room)
    gold, pages = sample.evidence_pages, corpus.store.document(sample.doc_id).num_pages
    words = corpus.queries(sample.doc_id, gold[0])
    aside = min({*range(1, pages + 1)} - {*gold}, key=lambda page: abs(page - gold[0]))
    calls = {
        "repeated": Call(query=corpus.own_query(sample.doc_id, gold[0])),
        "empty": Call(query=NOWHERE),
        "no page": Call(page=pages + 1),
        "near": Call(page=aside),
        "refetched": Call(page=gold[0]),
        "reworded": Call(query=words[-1]),
    }
    junk = {kind: [rules.write(call)] for kind, call in calls.items()}
    oracle = list(alden_play.oracle(sample, corpus.own_query))
    return rules, {"oracle": oracle}, {**junk, "malformed": [f"<search>{words[0]}</search>"]}, set()


def doc_v_star(corpus, sample, variant):
    play, rules = doc_v_star_play, DocVStar().lifted(max_turns=MANY)
    oracle, _ = rules.best(corpus, sample)
    first = sample.evidence_pages[0]
    trajectories = {
        "oracle": oracle,
        "nothing listed": [*oracle[:-1], play.answer(sample.answers[0], "")],
    }
    junk = {
        "repeated": [play.retrieve(corpus.own_query(sample.doc_id, first), "")],
        "irrelevant": [play.fetch("[1]", "")],
        "empty": [play.retrieve(NOWHERE, "")],
        "invalid": ["nonsense"],
    }
    return rules, trajectories, junk, set()


def mm_doc_r1(corpus, sample, variant):
    rules, gold = MMDoc().lifted(max_steps=MANY), sample.evidence_pages
    oracle, _ = rules.best(corpus, sample)
    aside = next(page for page in range(1, 99) if page not in gold)
    junk = {
        "repeated": [oracle[0]],
        "repeated reading": [f'Again. <read>[{{"page_ids": [{gold[0]}], "query": "q"}}]</read>'],
        "irrelevant": [f'Aside. <read>[{{"page_ids": [{aside}], "query": "q"}}]</read>'],
        "empty": [f'Nowhere. <search>["{NOWHERE}"]</search>'],
        # two invalid steps in a row end a trajectory
        "invalid": ["nonsense", oracle[0]],
    }
    trajectories = {"oracle": oracle, "nothing read": [oracle[0], oracle[-1]]}
    return rules, trajectories, junk, {"repeated reading"}


def unidoc_rl(corpus, sample, variant):
    rules = UniDoc(variant).lifted(max_turns=2 * MANY, image_limit=999, search={"top_k": 99})
    oracle, _ = rules.best(corpus, sample)
    page = min(sample.gold_pages)
    at = rules.places(corpus, sample)[page]
    astray = [f"<search>{other_words(corpus, sample)}</search>", "<select>0</select>"]
    unboxed = [turn for turn in oracle if "<bbox>" not in turn]
    trajectories = {
        "oracle": oracle,
        "wrong choice": [turn.replace(f"<select>{at}<", f"<select>{2 - at}<") for turn in unboxed],
        **({"no boxes": unboxed} if unboxed != oracle else {}),
    }
    junk = {
        "repeated": [f"<search>{corpus.query(*page)}</search>", "<select>0</select>"],
        "empty": [f"<search>{NOWHERE}</search>"],
        "irrelevant": astray,
        "junk boxes": [*astray, "<bbox>[[5, 5, 60, 60]]</bbox>", "<select>0</select>"],
        "invalid": ["nonsense"],
        "no index": ["<select>99</select>"],
    }
    return rules, trajectories, junk, {"repeated", "no index"}


def vrag_rl(corpus, sample, variant):
    rules = Vrag(variant).lifted(max_turns=MANY)
    oracle, _ = rules.best(corpus, sample)
    junk = {
        "repeated": [oracle[0]],
        "irrelevant": [f"<search>{other_words(corpus, sample)}</search>"],
        "junk box": ["<bbox>[5, 5, 60, 60]</bbox>"],
        "invalid": ["nonsense"],
    }
    trajectories = {"oracle": oracle, "wrong answer": [*oracle[:-1], f"<answer>{NOWHERE}</answer>"]}
    return rules, trajectories, junk, {"repeated"}


def padded(turns: list[str], junk: list[str], *, oracle: bool) -> list[list[str]]:
    """Return turns with rounds of junk before the answer, and for an oracle also at the beginning
    and before its last search.

    Pages that were shown early are not found later, which may put a gold page first.
    """
    *body, last = turns
    starts = [n for n, turn in enumerate(body) if "<search>" in turn or "<retrieval_page>" in turn]
    at = starts[-1] if starts else len(body)
    late = [*body, *junk * 3, last]
    return [late, [*junk, *turns], [*body[:at], *junk * 2, *body[at:], last]] if oracle else [late]


@pytest.mark.parametrize(
    ("make", "variant"),
    [
        *(
            (make, variant)
            for make in (alden, unidoc_rl, vrag_rl)
            for variant in ("paper", "released")
        ),
        *((make, "paper") for make in (doc_v_star, mm_doc_r1)),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
async def test_more_turns_are_not_paid_more(library, services, make, variant):
    async def paid(turns):
        env = rules.make(rules.knowing(services, sample))
        return sum((await play(env, sample, turns)).pay)

    # of several documents, with an answer, with and without gold boxes
    answered = [sample for sample in library.questions if sample.answers and sample.gold_pages]
    more = set()
    for sample in answered[::7]:
        rules, trajectories, kinds, correcting = make(library, sample, variant)
        for name, turns in trajectories.items():
            base = await paid(turns)
            for kind in kinds.keys() - (correcting if name != "oracle" else set()):
                scripts = padded(turns, kinds[kind], oracle=name == "oracle")
                if max([await paid(script) for script in scripts]) > base + 1e-9:
                    more.add((name, kind))
    assert more == PAYS.get((make.__name__, variant), set())


def test_what_is_paid_for_is_written_down():
    """docs/variants.md has one paragraph for each system and variant."""
    assert set(PAYS) == {
        (name, variant) for name in SYSTEMS for variant in get_system(name).padding
    }
