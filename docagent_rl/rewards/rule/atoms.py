"""A text as the things it speaks of: words, amounts, dates and times of day."""

from __future__ import annotations

import re
from typing import NamedTuple

from docagent_rl.rewards.rule.quantities import Date, Quantity, date_at, quantity_at, time_at
from docagent_rl.rewards.rule.words import ARTICLES, LABELLED, NUMBERED, stem


class Atom(NamedTuple):
    """One thing that a text speaks of.

    Args:
        text: the stem of a word, the digits of a number.
        raw: as it stands in the folded text.
        value: an amount, the readings of a date, or minutes after midnight; `None` for a word.
        opens: it is the first of a sentence.
    """

    text: str
    raw: str
    value: Quantity | frozenset[Date] | int | None = None
    opens: bool = False

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
        return self.value is None and self.raw[:1].isupper()


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
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*(?:\+{1,2}|#)?|[^\W_]+|&")
_BLANKS = frozenset(" \t\r\x0b\x0c\u00a0")
_ENDS = frozenset(".!?\n")
_Found = tuple[Atom, int]
"""An atom, and where it ends."""


def read(folded: str) -> list[Atom]:
    """Return the atoms of a folded text, in order, without marks and articles.

    A text of marks has none. Takes time linear in the length of the text.
    """
    atoms: list[Atom] = []
    at, opens, before = 0, True, ""
    while at < len(folded):
        found = _next(folded, at, before)
        if found is None:
            if folded[at] not in _BLANKS:
                opens, before = folded[at] in _ENDS, ""
            at += 1
            continue
        atom, at = found
        atom = atom._replace(opens=opens)
        if not _is_article(atom, before, folded[at : at + 40].lstrip(" ")):
            atoms.append(atom)
        opens, before = False, atom.text
    return atoms


def _is_article(atom: Atom, before: str, after: str) -> bool:
    """Return whether a word is an article before another word, rather than the letter A."""
    if atom.text not in ARTICLES or not (after[:1].isalnum() or after[:1] in tuple("$-+")):
        return False
    return atom.text != "a" or (
        before not in LABELLED and (atom.raw == "a" or (atom.opens and not after[:1].isupper()))
    )


def _next(text: str, at: int, before: str) -> _Found | None:
    if found := _ADDRESS.match(text, at):
        return Atom(_SCHEME.sub("", found[0].casefold()).rstrip("/."), found[0]), found.end()
    if typed := _typed(text, at, before):
        return typed
    if found := _WORD.match(text, at):
        plain = found[0][:-2] if found[0].casefold().endswith("'s") else found[0]
        return Atom(stem(plain), plain), found.end()
    return None


def _typed(text: str, at: int, before: str) -> _Found | None:
    if dated := date_at(text, at):
        raw = text[at : dated[1]]
        return Atom(raw.casefold(), raw, dated[0]), dated[1]
    if timed := time_at(text, at):
        return Atom(str(timed[0]), text[at : timed[1]], timed[0]), timed[1]
    if found := _DOTTED.match(text, at):
        return Atom(found[0].replace("'", ""), found[0]), found.end()
    amount = quantity_at(text, at)
    # 12g is twelve grams, and EUR12 an amount; behind "figure" 3a is a name
    if (found := _CODE.match(text, at)) and not (
        amount and before not in NUMBERED and amount[1] >= found.end()
    ):
        return Atom(found[0].casefold().replace("-", ""), found[0]), found.end()
    return amount and (Atom(amount[0].digits, text[at : amount[1]], amount[0]), amount[1])
