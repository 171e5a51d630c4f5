"""A text as the things it speaks of: words, amounts, dates, and the marks between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from docagent_rl.rewards.rule.quantities import Date, Quantity, date_at, quantity_at, time_at
from docagent_rl.rewards.rule.words import ARTICLES, LABELLED, NUMBERED, stem


class AtomKind(Enum):
    """The kind of an atom."""

    WORD = "word"
    QUANTITY = "quantity"
    DATE = "date"
    TIME = "time"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Atom:
    """One thing that a text speaks of.

    Args:
        text: the stem of a word, the digits of a number, a mark.
        raw: as it stands in the folded text.
        value: of the other kinds: an amount, readings of a date, minutes after midnight.
        opens: it is the first of a sentence.
        is_article: it is an article, rather than the letter A.
    """

    kind: AtomKind
    text: str
    raw: str
    value: Quantity | frozenset[Date] | int | None = None
    opens: bool = False
    is_article: bool = False

    @property
    def quantity(self) -> Quantity | None:
        """Return its amount, if it is one."""
        return self.value if isinstance(self.value, Quantity) else None

    @property
    def dates(self) -> frozenset[Date]:
        """Return its readings as a date, if it is one."""
        return self.value if isinstance(self.value, frozenset) else frozenset()

    @property
    def is_capital(self) -> bool:
        """Return whether it is a word that begins with a capital."""
        return self.kind is AtomKind.WORD and self.raw[:1].isupper()


_BLANKS = " \t\r\x0b\x0c\u00a0"
_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s,;]+|[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
    r"|[\w-]+\.(?:pdf|docx?|xlsx?|pptx?|txt|csv|json|xml|html?|png|jpe?g|py|zip|ipynb|md)(?!\w)"
)
_SCHEME = re.compile(r"\A(?:https://)?(?:http://)?(?:www\.)?")
# version 3.2.1, the 1990s
_DOTTED = re.compile(r"[0-9]+(?:\.[0-9]+){2,}(?!\w)|[12][0-9]{2}0'?s(?!\w)")
_CODE = re.compile(
    r"(?=[A-Za-z0-9-]*[A-Za-z])(?=[A-Za-z0-9-]*[0-9])"
    r"[A-Za-z]+-?[0-9][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*(?!\w)|[0-9]+[A-Za-z](?!\w)"
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*(?:\+{1,2}|#)?|[^\W_]+")
_MARK = re.compile(r"\n[ \t\n]*| +- +|\S|[\s\S]")
_Found = tuple[Atom, int]
"""An atom, and where it ends."""


def read(folded: str) -> list[Atom]:
    """Return the atoms of a folded text, in order; takes time linear in its length."""
    atoms: list[Atom] = []
    at = 0
    while at < len(folded):
        if folded[at] in _BLANKS and not folded.startswith(" - ", at):
            at += 1
            continue
        opens = not atoms or atoms[-1].text in (".", "!", "?", "\n")
        atom, at = _next(folded, at, atoms[-1].text if atoms else "")
        atoms.append(replace(atom, opens=opens))
    return [replace(a, is_article=True) if _is_article(atoms, at) else a for at, a in enumerate(atoms)]


def _is_article(atoms: list[Atom], at: int) -> bool:
    atom, after = atoms[at], atoms[at + 1] if at + 1 < len(atoms) else None
    if atom.kind is not AtomKind.WORD or atom.text not in ARTICLES:
        return False
    if after is None or after.kind is AtomKind.MARK:
        return False
    if atom.text != "a":
        return True
    is_label = at > 0 and atoms[at - 1].text in LABELLED
    return not is_label and (atom.raw == "a" or (atom.opens and not after.is_capital))


def _next(text: str, at: int, before: str) -> _Found:
    if found := _ADDRESS.match(text, at):
        address = _SCHEME.sub("", found[0].casefold()).rstrip("/.")
        return Atom(AtomKind.WORD, address, found[0]), found.end()
    if typed := _typed(text, at, before):
        return typed
    if found := _WORD.match(text, at):
        plain = found[0][:-2] if found[0].casefold().endswith("'s") else found[0]
        return Atom(AtomKind.WORD, stem(plain), plain), found.end()
    found = _MARK.match(text, at)
    assert found is not None  # it takes any character
    mark = "\n" if found[0].startswith("\n") else found[0].strip(" ")
    if mark == "&":
        return Atom(AtomKind.WORD, "and", mark), found.end()
    return Atom(AtomKind.MARK, mark, found[0]), found.end()


def _typed(text: str, at: int, before: str) -> _Found | None:
    if dated := date_at(text, at):
        raw = text[at : dated[1]]
        return Atom(AtomKind.DATE, raw.casefold(), raw, dated[0]), dated[1]
    if timed := time_at(text, at):
        return Atom(AtomKind.TIME, str(timed[0]), text[at : timed[1]], timed[0]), timed[1]
    if found := _DOTTED.match(text, at):
        return Atom(AtomKind.WORD, found[0].replace("'", ""), found[0]), found.end()
    amount = quantity_at(text, at)
    # 12g is twelve grams, and EUR12 an amount; behind "figure" 3a is a name
    if (found := _CODE.match(text, at)) and not (
        amount and before not in NUMBERED and amount[1] >= found.end()
    ):
        return Atom(AtomKind.WORD, found[0].casefold().replace("-", ""), found[0]), found.end()
    if amount:
        return Atom(AtomKind.QUANTITY, amount[0].digits, text[at : amount[1]], amount[0]), amount[1]
    return None
