"""Whom a judge is asked about, and what its verdict changes."""

from __future__ import annotations

from docagent_rl.collect.filters import Answer, Format
from docagent_rl.collect.judging import judged
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
