"""A text as the things it speaks of: words, amounts, dates, and the marks between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

from docagent_rl.rewards.rule.quantities import Date, Quantity, date_at, ordinal_at, quantity_at, time_at
from docagent_rl.rewards.rule.words import ARTICLES, LABELLED, NUMBERED, stem


class AtomKind(Enum):
    """The kind of an atom."""

    WORD = "word"
    QUANTITY = "quantity"
    DATE = "date"
    TIME = "time"
    ORDINAL = "ordinal"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Atom:
    """One thing that a text speaks of.

    Args:
        text: the stem of a word, the digits of a number, a mark.
        raw: as it stands in the folded text.
        value: of the other kinds: an amount, readings of a date, minutes after midnight, an ordinal.
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
_VERSION = re.compile(r"v\.? ?(?=[0-9]+(?:\.[0-9]+)+)", re.IGNORECASE)
_QUARTER = re.compile(r"(?P<name>Q|FY|H)[ -]?(?P<number>[0-9]{1,4})(?!\w)")
_CODE = re.compile(
    r"(?=[A-Za-z0-9-]*[A-Za-z])(?=[A-Za-z0-9-]*[0-9])"
    r"[A-Za-z]+-?[0-9][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*(?!\w)|[0-9]+[A-Za-z](?!\w)"
)
_INITIALS = re.compile(r"(?:[A-Za-z]\.){2,}[A-Za-z]?(?!\w)|[A-Za-z]/[A-Za-z](?!\w)")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*(?:\+{1,2}|#)?|[^\W_]+")
_JOINED = re.compile(r"((?:e|co|re))-(?=[a-z])", re.IGNORECASE)
_MARK = re.compile(r"\n[ \t\n]*| +- +|\S|[\s\S]")
_MARK_WORDS = {"&": "and", "\u00a7": "section"}
_ROMANS = (
    "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv", "xvi",
    "xvii", "xviii", "xix", "xx", "xxi", "xxii", "xxiii", "xxiv", "xxv", "xxvi", "xxvii", "xxviii",
    "xxix", "xxx",
)  # fmt: skip

_Found = tuple[list[Atom], int]
"""Atoms, of which some spellings hold two (Q3), and where they end."""


def read(folded: str) -> list[Atom]:
    """Return the atoms of a folded text, in order; takes time linear in its length."""
    atoms: list[Atom] = []
    at = 0
    while at < len(folded):
        if folded[at] in _BLANKS and not folded.startswith(" - ", at):
            at += 1
            continue
        found, at = _next(folded, at, atoms[-1].text if atoms else "")
        opens = not atoms or atoms[-1].text in (".", "!", "?", "\n")
        atoms.extend(replace(atom, opens=opens and not number) for number, atom in enumerate(found))
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
        return [Atom(AtomKind.WORD, address, found[0])], found.end()
    if typed := _typed(text, at, before) or _spelled(text, at):
        return typed
    if found := _WORD.match(text, at):
        return [_word(found[0], before)], found.end()
    found = _MARK.match(text, at)
    assert found is not None  # it takes any character
    mark = "\n" if found[0].startswith("\n") else found[0].strip(" ")
    if mark in _MARK_WORDS:
        return [Atom(AtomKind.WORD, _MARK_WORDS[mark], mark)], found.end()
    return [Atom(AtomKind.MARK, mark, found[0])], found.end()


def _typed(text: str, at: int, before: str) -> _Found | None:
    if dated := date_at(text, at):
        raw = text[at : dated[1]]
        return [Atom(AtomKind.DATE, raw.casefold(), raw, dated[0])], dated[1]
    if timed := time_at(text, at):
        return [Atom(AtomKind.TIME, str(timed[0]), text[at : timed[1]], timed[0])], timed[1]
    if found := _DOTTED.match(text, at):
        return [Atom(AtomKind.WORD, found[0].replace("'", ""), found[0])], found.end()
    if found := _VERSION.match(text, at):
        return [Atom(AtomKind.WORD, "version", found[0])], found.end()
    amount = quantity_at(text, at)
    # 12g is twelve grams, and EUR12 an amount; behind "figure" 3a is a name
    if (found := _CODE.match(text, at)) and not (
        amount and before not in NUMBERED and amount[1] >= found.end()
    ):
        code = [Atom(AtomKind.WORD, found[0].casefold().replace("-", ""), found[0])]
        return _quarter(text, at) or (code, found.end())
    if ordinal := ordinal_at(text, at):
        return [Atom(AtomKind.ORDINAL, f"{ordinal[0]}th", text[at : ordinal[1]], ordinal[0])], ordinal[1]
    if amount:
        return [Atom(AtomKind.QUANTITY, amount[0].digits, text[at : amount[1]], amount[0])], amount[1]
    return None


def _quarter(text: str, at: int) -> _Found | None:
    found = _QUARTER.match(text, at)
    if not found:
        return None
    number = int(found["number"])
    if found["name"] == "FY":
        names = [Atom(AtomKind.WORD, name, name) for name in ("fiscal", "year")]
        return [*names, _number(number, str(number))], found.end()
    name = "quarter" if found["name"] == "Q" else "half"
    ordinal = Atom(AtomKind.ORDINAL, f"{number}th", found[0], number)
    return [ordinal, Atom(AtomKind.WORD, name, name)], found.end()


def _spelled(text: str, at: int) -> _Found | None:
    if found := _INITIALS.match(text, at):
        raw = found[0].replace(".", "")
        return [Atom(AtomKind.WORD, raw.casefold(), raw)], found.end()
    if (joined := _JOINED.match(text, at)) and (rest := _WORD.match(text, joined.end())):
        raw = joined[1] + rest[0]
        return [Atom(AtomKind.WORD, stem(raw), raw)], rest.end()
    return None


def _word(raw: str, before: str) -> Atom:
    plain = raw[:-2] if raw.casefold().endswith("'s") else raw
    if before in NUMBERED and plain.casefold() in _ROMANS:
        return _number(_ROMANS.index(plain.casefold()) + 1, plain)
    return Atom(AtomKind.WORD, stem(plain), plain)


def _number(number: int, raw: str) -> Atom:
    return Atom(AtomKind.QUANTITY, str(number), raw, Quantity(Decimal(number)))
