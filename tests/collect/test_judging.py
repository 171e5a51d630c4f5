"""Whom a judge is asked about, and what its verdict changes."""

from __future__ import annotations

from docagent_rl.collect.filters import Answer, Evidence, EvidencePages, Format
from docagent_rl.collect.judging import judged
from docagent_rl.documents import PageRef
from tests.collect.cases import case

STEPS = [Format(), Answer(judged=True)]


class Clerk:
    """Finds everything right that begins with a capital; keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def judge(self, question, references, prediction):
        self.asked.append((question, references, prediction))
        return float(prediction[:1].isupper())

    async def check(self):
        pass


async def test_only_doubtful_answers_in_free_text_are_judged():
    clerk = Clerk()
    cases = [
        case("right"),
        case("other words", prediction="The colour of the sky", asked="Which?"),
        case("wrong", prediction="red"),
        case("spoilt", prediction="The colour of the sky", sound=False),
        case("number", prediction="Forty-two or so", references=("42",)),
        case("none", prediction=None),
        case("refusal", prediction="Blue", references=(), refusal=True),
    ]
    found = await judged(cases, STEPS, clerk)
    assert sorted(clerk.asked) == [
        ("", ("blue",), "red"),
        ("Which?", ("blue",), "The colour of the sky"),
    ]
    assert Answer(judged=True).keep(found) == [True, True, False, False, False, False, False]
    assert Answer().keep(found) == [True, False, False, False, False, False, False]


async def test_nobody_is_asked_where_no_filter_wants_it():
    clerk = Clerk()
    cases = [case(prediction="Red")]
    assert await judged(cases, [Format(), Answer()], clerk) == cases
    assert clerk.asked == []


class Looker:
    """Finds every answer supported on page 7; keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def supports(self, question, answer, pages):
        self.asked.append((question, answer, pages))
        return PageRef("d", 7) in pages


def listing(question, *pages, shown=None, **changes):
    named = frozenset(f"d#{page}" for page in pages)
    return case(question, listed=named, shown=named if shown is None else shown, **changes)


async def test_pages_that_are_not_gold_are_looked_at():
    """Doc-V*, appendix C, and for what it leaves open section 6 of its specification here."""
    looker = Looker()
    rule = Evidence(pages=EvidencePages.LISTED, unknown=False, judged=True)
    cases = [
        listing("gold", 3, 9),
        listing("elsewhere", 7, 4, asked="Which?"),
        listing("astray", 4),
        listing("unknown", 7, gold=None),
        listing("refusal", gold=frozenset(), references=(), refusal=True),
        listing("refusal that rests on pages", 4, gold=frozenset(), references=(), refusal=True),
        listing("none listed"),
        listing("never shown", 7, shown=frozenset({"d#1"})),
        listing("spoilt", 7, sound=False),
    ]
    found = await judged(cases, [Format(), rule], evidence=looker)
    assert [(question, [str(page) for page in pages]) for question, _, pages in looker.asked] == [
        ("Which?", ["d#4", "d#7"]),
        ("", ["d#4"]),
        ("", ["d#7"]),
        ("", ["d#4"]),
    ]
    assert rule.keep(found) == [True, True, False, True, True, False, False, False, False]
    # without a judge the rule is the plain one
    assert rule.keep(await judged(cases, [Format(), rule])) == [True, *[False] * 3, True, *[False] * 4]


async def test_one_judge_sees_what_the_other_let_through():
    clerk, looker = Clerk(), Looker()
    rules = [Answer(judged=True), Evidence(pages=EvidencePages.LISTED, judged=True)]
    cases = [listing("a", 7, prediction="Sky"), listing("b", 7, prediction="red"), listing("c", 7)]
    found = await judged(cases, rules, clerk, looker)
    assert [each.supported for each in found] == [True, None, True]
    assert [each.verdict for each in found] == [1.0, 0.0, None]
    assert [question for question, *_ in looker.asked] == ["", ""]
