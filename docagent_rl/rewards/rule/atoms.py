"""A text as the things it speaks of: words, amounts, dates, and the marks between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from docagent_rl.rewards.rule.dates import Date, date_at, time_at
from docagent_rl.rewards.rule.phrases import ARTICLES, LABELLED, NUMBERED
from docagent_rl.rewards.rule.quantities import Quantity, ordinal_at, quantity_at
from docagent_rl.rewards.rule.spelling import stem


class AtomKind(Enum):
    """What an atom is."""

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
        kind: what it is.
        text: the stem of a word, the digits of a number, a mark.
        raw: as it stands in the folded text.
        value: of the other kinds: an amount, readings of a date, minutes after midnight, an ordinal.
        opens: whether it is the first of a sentence.
        possessive: whether it ended in 's.
        is_article: whether it is an article, rather than the letter A.
    """

    kind: AtomKind
    text: str
    raw: str
    value: Quantity | frozenset[Date] | int | None = None
    opens: bool = False
    possessive: bool = False
    is_article: bool = False

    @property
    def quantity(self) -> Quantity | None:
        """Its amount, if it is one."""
        return self.value if isinstance(self.value, Quantity) else None

    @property
    def dates(self) -> frozenset[Date]:
        """Its readings as a date, if it is one."""
        return self.value if isinstance(self.value, frozenset) else frozenset()

    @property
    def is_capital(self) -> bool:
        """Whether it is a word that begins with a capital."""
        return self.kind is AtomKind.WORD and self.raw[:1].isupper()


_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s,;]+|[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
    r"|[\w-]+\.(?:pdf|docx?|xlsx?|pptx?|txt|csv|json|xml|html?|png|jpe?g|py|zip|ipynb|md)(?!\w)"
)
_DOTTED = re.compile(r"[0-9]+(?:\.[0-9]+){2,}(?![\w])")
_DECADE = re.compile(r"[12][0-9]{2}0'?s(?!\w)")
_VERSION = re.compile(r"v\.? ?(?=[0-9]+(?:\.[0-9]+)+)", re.IGNORECASE)
_QUARTER = re.compile(r"(?P<what>Q|FY|H)[ -]?(?P<number>[0-9]{1,4})(?!\w)")
_QUARTER_NAMES = {"Q": ("quarter",), "H": ("half",), "FY": ("fiscal", "year")}
_CODE = re.compile(
    r"(?=[A-Za-z0-9-]*[A-Za-z])(?=[A-Za-z0-9-]*[0-9])[A-Za-z]+-?[0-9][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*(?!\w)|[0-9]+(?:[A-Za-z]|s)(?!\w)"
)
_INITIALS = re.compile(r"(?:[A-Za-z]\.){2,}[A-Za-z]?(?!\w)|[A-Za-z]/[A-Za-z](?!\w)")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*(?:\+{1,2}|#)?|[^\W_]+")
_JOINED = re.compile(r"(?:e|co|re)-(?=[a-z])", re.IGNORECASE)
_MARK = re.compile(r"\n[ \t\n]*| +- +|&|\S")
_ROMAN = re.compile(r"[ivx]{1,6}", re.IGNORECASE)
_ROMANS = {"i": 1, "v": 5, "x": 10}
_SENTENCE_ENDS = frozenset(".!?\n")


def read(folded: str) -> list[Atom]:
    """The atoms of a folded text, in order; takes time linear in its length."""
    atoms: list[Atom] = []
    at = 0
    while at < len(folded):
        if folded[at] in " \t\r\x0b\x0c\u00a0" and not folded.startswith(" - ", at):
            at += 1
            continue
        found, at = _next(folded, at, atoms)
        opens = not atoms or atoms[-1].text in _SENTENCE_ENDS
        atoms.extend(replace(atom, opens=opens and not number) for number, atom in enumerate(found))
    return [replace(a, is_article=True) if _is_article(atoms, at) else a for at, a in enumerate(atoms)]


def _is_article(atoms: list[Atom], at: int) -> bool:
    atom = atoms[at]
    if atom.kind is not AtomKind.WORD or atom.text not in ARTICLES:
        return False
    after = atoms[at + 1] if at + 1 < len(atoms) else None
    if after is None or after.kind is AtomKind.MARK:
        return False
    if atom.text != "a":
        return True
    if at and atoms[at - 1].text in LABELLED:
        return False
    return atom.raw == "a" or (atom.opens and not after.is_capital)


def _next(text: str, at: int, before: list[Atom]) -> tuple[list[Atom], int]:
    """The atoms that begin at a place; some spellings hold two, such as Q3."""
    glued = at > 0 and text[at - 1].isalnum() and not (before and before[-1].text == "version")
    if found := _ADDRESS.match(text, at):
        low = found[0].casefold().removeprefix("https://").removeprefix("http://").removeprefix("www.")
        return [Atom(AtomKind.WORD, low.rstrip("/."), found[0])], found.end()
    if not glued:
        if typed := _typed(text, at, before):
            return typed
        if spelled := _spelled(text, at):
            return spelled
    if found := _WORD.match(text, at):
        return [_word(found[0], before)], found.end()
    found = _MARK.match(text, at)
    mark = found[0].strip(" ") if found else text[at]
    end = found.end() if found else at + 1
    if mark.startswith("\n"):
        return [Atom(AtomKind.MARK, "\n", "\n")], end
    if mark == "&":
        return [Atom(AtomKind.WORD, "and", "&")], end
    return (
        [Atom(AtomKind.WORD, "section", mark)]
        if mark == "\u00a7"
        else [Atom(AtomKind.MARK, mark, found[0] if found else mark)]
    ), end


def _typed(text: str, at: int, before: list[Atom]) -> tuple[list[Atom], int] | None:
    if found := _DOTTED.match(text, at):
        dated = date_at(text, at)
        if not dated:
            return [Atom(AtomKind.WORD, found[0], found[0])], found.end()
    if dated := date_at(text, at):
        return [Atom(AtomKind.DATE, text[at : dated[1]].casefold(), text[at : dated[1]], dated[0])], dated[1]
    if timed := time_at(text, at):
        return [Atom(AtomKind.TIME, str(timed[0]), text[at : timed[1]], timed[0])], timed[1]
    if version := _VERSION.match(text, at):
        return [Atom(AtomKind.WORD, "version", version[0])], version.end()
    if found := _DECADE.match(text, at):
        return [Atom(AtomKind.WORD, found[0].casefold().replace("'", ""), found[0])], found.end()
    if (found := _CODE.match(text, at)) and not _is_amount(text, at, found, before):
        return _code(text, at, found)
    if ordinal := ordinal_at(text, at):
        return [Atom(AtomKind.ORDINAL, f"{ordinal[0]}th", text[at : ordinal[1]], ordinal[0])], ordinal[1]
    if _is_pronoun(text, at, before):
        return None
    if amount := quantity_at(text, at):
        quantity, end = amount
        return [Atom(AtomKind.QUANTITY, quantity.digits, text[at:end], quantity)], end
    return None


def _code(text: str, at: int, found: re.Match[str]) -> tuple[list[Atom], int]:
    if quarter := _QUARTER.match(text, at):
        number = int(quarter["number"])
        names = [Atom(AtomKind.WORD, name, name) for name in _QUARTER_NAMES[quarter["what"]]]
        if quarter["what"] == "FY":
            year = quantity_at(quarter["number"], 0)
            return [
                *names,
                Atom(AtomKind.QUANTITY, str(number), str(number), year and year[0]),
            ], quarter.end()
        return [Atom(AtomKind.ORDINAL, f"{number}th", quarter[0], number), *names], quarter.end()
    return [Atom(AtomKind.WORD, found[0].casefold().replace("-", ""), found[0])], found.end()


def _is_amount(text: str, at: int, found: re.Match[str], before: list[Atom]) -> bool:
    """Whether 12g is twelve grams; behind "figure" it is a name."""
    if not text[at].isdigit() or (before and before[-1].text in NUMBERED):
        return bool(_currency_code(text, at))
    amount = quantity_at(text, at)
    return bool(amount and amount[1] >= found.end())


def _currency_code(text: str, at: int) -> bool:
    amount = quantity_at(text, at)
    return bool(amount and amount[0].unit and text[at].isalpha())


def _is_pronoun(text: str, at: int, before: list[Atom]) -> bool:
    """Whether "one" stands for a thing: the one in Lisbon, one of them."""
    if text[at : at + 3].casefold() != "one" or text[at + 3 : at + 4].isalnum():
        return False
    return text[at + 3 : at + 6] == " of" or bool(
        before and before[-1].text in ("the", "thi", "this", "that", "which", "a", "an", "only")
    )


def _spelled(text: str, at: int) -> tuple[list[Atom], int] | None:
    if found := _INITIALS.match(text, at):
        raw = found[0].replace(".", "")
        return [Atom(AtomKind.WORD, raw.casefold(), raw)], found.end()
    if (joined := _JOINED.match(text, at)) and (rest := _WORD.match(text, joined.end())):
        raw = joined[0][:-1] + rest[0]
        return [Atom(AtomKind.WORD, stem(raw), raw)], rest.end()
    return None


def _word(raw: str, before: list[Atom]) -> Atom:
    possessive = raw.casefold().endswith("'s")
    plain = raw[:-2] if possessive else raw
    if before and before[-1].text in NUMBERED and _ROMAN.fullmatch(plain):
        number = _roman(plain.casefold())
        amount = quantity_at(str(number), 0)
        return Atom(AtomKind.QUANTITY, str(number), plain, amount and amount[0])
    # a single letter is a name: its case is kept apart from the article's by the reader of claims
    return Atom(AtomKind.WORD, stem(plain), plain, possessive=possessive)


def _roman(letters: str) -> int:
    values = [_ROMANS[letter] for letter in letters]
    ahead = [*values[1:], 0]
    return sum(-value if value < following else value for value, following in zip(values, ahead, strict=True))
