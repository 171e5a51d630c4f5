"""The turn rewards of ALDEN, kept by hand, and the best call of every turn (its tables 5.1 and 5.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from docagent_rl.records.record import Record
from tests.players.formulas import char_f1, overlap, plain, word_f1

REFUSAL = "The problem is not answerable"
PAID_AT_MOST = {"paper": 1.0, "released": 3.0}
"""For a call: precision, or the gold pages among three new ones."""


@dataclass(frozen=True)
class Call:
    """A search, or a fetch of a page in a form."""

    query: str = ""
    page: int = 0
    form: str = "image"

    def block(self, variant: str, forms: Sequence[str]) -> str:
        """As the agent writes it."""
        if self.query:
            return f"<search>{self.query}</search>"
        number = f"{self.page}-th" if variant == "released" else str(self.page)
        return f"<fetch>{f'{self.form}, ' if len(forms) > 1 else ''}{number}</fetch>"


@dataclass
class Ledger:
    """What an agent was shown and has asked, and what turns are worth.

    Args:
        variant: the paper's formulas or the released ones.
        forms: what pages are shown as.
        record: the question.
        pages: of its document.
        hits: best pages for a query, in the document.
    """

    variant: str
    forms: tuple[str, ...]
    record: Record
    pages: int
    hits: dict[str, list[int]]
    seen: set[tuple[int, str]] = field(default_factory=set)
    queries: list[list[str]] = field(default_factory=list)

    @property
    def gold(self) -> set[int]:
        return set(self.record.evidence_pages)

    def found(self, query: str) -> list[int]:
        """The pages that a search shows: one as published, three as released."""
        return self.hits[query][: 1 if self.variant == "paper" else 3]

    def worth(self, call: Call) -> float:
        """What a well-formed call is paid, on its tokens too."""
        if self.variant == "released" and not self.record.answers:
            return 0.0
        return self._search(call.query) if call.query else self._fetch(call.page, call.form)

    def _search(self, query: str) -> float:
        found = set(self.found(query))
        if self.variant == "released":
            return float(len((found & self.gold) - {page for page, _ in self.seen}))
        credit = len(found & self.gold) / len(found) if found else 0.0
        return credit - overlap(words(query), self.queries)

    def _fetch(self, page: int, form: str) -> float:
        again = (page, form) in self.seen
        away = [abs(page - gold) for gold in self.gold]
        if self.variant == "paper":
            near = math.exp(-sum(away) / len(away)) if away else 0.0
            return near - 0.5 * again
        near = 1.0 if page in self.gold else 0.3 * math.exp(-sum(away) / len(away) / 2)
        return near - again

    def note(self, call: Call) -> None:
        """The call was made."""
        if call.query:
            self.seen |= {(page, form) for page in self.found(call.query) for form in self.forms}
            self.queries.append(words(call.query))
        else:
            self.seen.add((call.page, call.form))

    def best(self, queries: Iterable[str]) -> Call:
        """The call that is paid most now: any fetch, or a search by one of these queries."""
        fetches = [Call(page=page, form=form) for page in range(1, self.pages + 1) for form in self.forms]
        return max([*fetches, *(Call(query=query) for query in queries)], key=self.worth)

    def answer(self, text: str) -> float:
        """What a well-formed answer is paid."""
        references = self.record.answers or (REFUSAL,)
        if self.variant == "paper":
            return 5 * max(char_f1(text, reference) for reference in references)
        refused = plain(REFUSAL) in plain(text)
        if not self.record.answers:
            return 5 * word_f1(text, REFUSAL) if refused else -2.0
        if refused:
            return -5.0
        return 5 * max(_worded(text, reference) for reference in references)


def words(query: str) -> list[str]:
    """The words of a query."""
    return re.findall(r"\w+", query.casefold())


def _worded(text: str, reference: str) -> float:
    polar = {"yes", "no", "noanswer"}
    if plain(text) != plain(reference) and (plain(text) in polar or plain(reference) in polar):
        return 0.0
    return word_f1(text, reference)
