"""ALDEN by hand: a ledger of turn rewards, and the best call of every turn (the specification's
tables 5.1 and 5.2).
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from Stemmer import Stemmer

from docagent_rl.envs.base import EndReason
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv
from tests.players.attacks import Voice
from tests.players.corpus import Corpus
from tests.players.formulas import char_f1, plain, repetition, word_f1
from tests.players.readers import alden_answer
from tests.players.referee import Limits
from tests.players.rules import Rules
from tests.systems.alden.play import THOUGHT, adversary, answer

REFUSAL = "The problem is not answerable"
FORMS = {"visual": ("image",), "hybrid": ("image", "text")}
TURNS = 6


@dataclass(frozen=True)
class Call:
    """A search, or a fetch of a page in a form."""

    query: str = ""
    page: int = 0
    form: str = "image"


@dataclass
class Ledger:
    """The pages that an agent was shown, the queries that it asked, and the rewards of turns."""

    variant: str
    forms: tuple[str, ...]
    sample: Sample
    corpus: Corpus
    seen: set[tuple[int, str]] = field(default_factory=set)
    queries: list[list[str]] = field(default_factory=list)

    @property
    def gold(self) -> set[int]:
        return set(self.sample.evidence_pages)

    @property
    def pages(self) -> int:
        return self.corpus.store.document(self.sample.doc_id).num_pages

    def found(self, query: str) -> list[int]:
        """Return the pages that a search shows: one as published, three as released."""
        hits = self.corpus.hits(query, 5, self.sample.doc_id)
        return [page for _, page in hits][: 1 if self.variant == "paper" else 3]

    def worth(self, call: Call) -> float:
        """Return the reward of a well-formed call, including that on its tokens."""
        if self.variant == "released" and not self.sample.answers:
            return 0.0
        return self._search(call.query) if call.query else self._fetch(call.page, call.form)

    def _search(self, query: str) -> float:
        found = set(self.found(query))
        if self.variant == "released":
            return float(len((found & self.gold) - {page for page, _ in self.seen}))
        credit = len(found & self.gold) / len(found) if found else 0.0
        return credit - repetition(words(query), self.queries, n=1)[0]

    def _fetch(self, page: int, form: str) -> float:
        again = (page, form) in self.seen
        away = [abs(page - gold) for gold in self.gold]
        if self.variant == "paper":
            near = math.exp(-sum(away) / len(away)) if away else 0.0
            return near - 0.5 * again
        near = 1.0 if page in self.gold else 0.3 * math.exp(-sum(away) / len(away) / 2)
        return near - again

    def note(self, call: Call) -> None:
        """Record that the call was made."""
        if call.query:
            self.seen |= {(page, form) for page in self.found(call.query) for form in self.forms}
            self.queries.append(words(call.query))
        else:
            self.seen.add((call.page, call.form))

    def best(self, queries: Iterable[str]) -> Call:
        """Return the call with the highest reward now: any fetch, or a search by one of these
        queries.
        """
        fetches = [
            Call(page=page, form=form) for page in range(1, self.pages + 1) for form in self.forms
        ]
        return max([*fetches, *(Call(query=query) for query in queries)], key=self.worth)

    def answer(self, text: str) -> float:
        """Return the reward of a well-formed answer."""
        references = self.sample.answers or (REFUSAL,)
        if self.variant == "paper":
            return 5 * max(char_f1(text, reference) for reference in references)
        refused = plain(REFUSAL) in plain(text)
        if not self.sample.answers:
            return 5 * word_f1(text, REFUSAL) if refused else -2.0
        return -5.0 if refused else 5 * max(_worded(text, reference) for reference in references)


def words(query: str) -> list[str]:
    """Return the stems of a query's words."""
    return Stemmer("english").stemWords(re.findall(r"\w+", query.casefold()))


def _worded(text: str, reference: str) -> float:
    polar = {"yes", "no", "noanswer"}
    if plain(text) != plain(reference) and (plain(text) in polar or plain(reference) in polar):
        return 0.0
    return word_f1(text, reference)


class Alden(Rules):
    env, config = AldenEnv, AldenConfig
    voice = Voice(
        core=lambda text: rf"<answer>\boxed{{{text}}}</answer>",
        turn=lambda block: f"{THOUGHT}{block}",
        search=lambda query: f"<search>{query}</search>",
        calls=(lambda text: f"<fetch>{text}</fetch>", lambda text: f"<fetch>image, {text}</fetch>"),
    )
    refusal = REFUSAL
    ends = frozenset({EndReason.ANSWERED, EndReason.INVALID, EndReason.TURN_LIMIT})
    adversary = staticmethod(adversary)
    answer = staticmethod(alden_answer)

    def __init__(self, variant, modality):
        super().__init__(variant, modality=modality, search={"text_ranking": "shared"})
        self.forms = FORMS[modality]
        # 15 images, and calls are five; a page is at most 3,200 or 1,100 visual tokens, rounding
        # aside
        images, tokens, least = (5, 3_200, -1.0) if variant == "paper" else (15, 1_180, -5.0)
        self.limits = Limits(
            turns=TURNS, images=images, tokens=images * tokens, reward=(least, 5.0)
        )

    def __str__(self):
        return f"{super().__str__()}-{self.settings['modality']}"

    def ledger(self, corpus, sample):
        return Ledger(self.variant, self.forms, sample, corpus)

    def write(self, call):
        """Write a call as the agent writes it."""
        if call.query:
            return f"{THOUGHT}<search>{call.query}</search>"
        form = f"{call.form}, " if len(self.forms) > 1 else ""
        return f"{THOUGHT}<fetch>{form}{call.page}{'-th' * (self.variant == 'released')}</fetch>"

    def best(self, corpus, sample):
        """Return all five calls, each with the highest reward after those before it, then the
        answer.
        """
        pool = [q for page in sorted(sample.gold_pages) for q in corpus.queries(*page)] or [
            "report page"
        ]
        book = self.ledger(corpus, sample)
        turns, wanted = [], []
        for _ in range(TURNS - 1):
            call = book.best(pool)
            wanted.append(book.worth(call))
            turns.append(self.write(call))
            book.note(call)
        if not sample.answers or self.variant == "paper":
            # precision 1 five times over: no trajectory can be paid more
            assert wanted == [float(bool(sample.answers))] * 5
        return [*turns, answer(self.secret(sample))], [*wanted, 5.0]

    def good_calls(self, corpus, sample):
        pages = corpus.store.document(sample.doc_id).num_pages
        calls = [Call(query=corpus.own_query(*page)) for page in sorted(sample.gold_pages)]
        calls += [
            Call(page=page, form=form) for page in (1, 2, pages, pages + 1) for form in self.forms
        ]
        return [self.write(call) for call in (*calls, Call(query="everypage"))]

    def audit(self, state, corpus, said, right):
        """Compute the reward of every turn again, from the texts of turns and the pages that
        searches find.
        """
        book = self.ledger(corpus, state.sample)
        for number, (turn, result) in enumerate(zip(state.turns, state.results, strict=True), 1):
            action, info, paid = (
                result.record.to_dict()["action"],
                result.record.to_dict(),
                state.pay[number - 1],
            )
            formed = info["valid"] and (number < TURNS or action["kind"] == "answer")
            assert result.terms.values["format"] == (0.0 if formed else -1.0)
            if not info["valid"]:
                assert (result.terms.reward, result.terms.tokens) == (-1.0, ())
            if action["kind"] == "answer":
                assert paid == pytest.approx(book.answer(alden_answer(turn)))
                continue
            call = self._call(action, book)
            if not info["valid"] or number == TURNS:
                assert paid == -1
            elif call is None:
                assert paid == (
                    0.0 if self.variant == "released" and not state.sample.answers else -0.5
                )
            else:
                assert paid == pytest.approx(book.worth(call))
            if call is not None and info["executed"] and (info["valid"] or self.variant == "paper"):
                book.note(call)
        assert (state.metrics["reward/answer"] == 0) or said is not None

    @staticmethod
    def _call(action, book):
        """Return a search or a fetch of a page that exists."""
        if action["kind"] == "search":
            return Call(query=action["query"])
        if action["kind"] == "fetch" and action["pages"] and action["pages"][0] <= book.pages:
            return Call(page=action["pages"][0], form=action["form"])
        return None
