"""Tokenisation of a text into atoms: words, numbers and dates."""

import re
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from docagent_rl.rewards.rule.words import HAN, root, stem


class Atom(NamedTuple):
    """A word, number or date of a text; a unit is a word that follows its number.

    Args:
        text: the stem of a word, or the digits of a number.
        raw: the atom as it is written in the folded text.
        number: the value of a number, with its scale applied: 3.5 million is 3500000.
        days: the possible readings of a date.
        opens: whether it is the first atom of a sentence.
        gap: the punctuation and whitespace before it.
        owns: whether it has a possessive ending, as in "Roe's".
    """

    text: str
    raw: str
    number: Fraction | None = None
    days: frozenset[date] = frozenset()
    opens: bool = False
    gap: str = ""
    owns: bool = False

    @property
    def key(self) -> Fraction | str:
        """Return what all forms of the atom share: the value of a number, or the root of a word."""
        return root(self.text) if self.number is None else self.number

    @property
    def begins_clause(self) -> bool:
        """Return whether punctuation separates it from the text before it."""
        return any(mark in _CLAUSE_ENDS for mark in self.gap)

    @property
    def is_capital(self) -> bool:
        """Return whether it is a capitalised word."""
        return self.number is None and not self.days and self.raw[:1].isupper()


_SIGN = r"[$\u00a2\u00a3\u00a5\u0e3f\u20a0-\u20c1]"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]|\((?={_SIGN}))?"
    rf"(?P<money>(?:(?:us)?{_SIGN}|(?:usd|eur|gbp|jpy|cny|inr|chf|cad|aud|rs)\b\.?) ?)?"
    r"(?:(?P<comma>[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+|[0-9]{1,3}(?:\.[0-9]{3}){2,}"
    r"|[0-9]{1,3}(?: [0-9]{3})+,[0-9]{1,2}"
    r"|0,[0-9]+|[0-9]+,[0-9]{1,2})(?![0-9]|[.,][0-9])"
    r"|(?P<digits>[0-9]{1,3}(?:(?:,[0-9]{3})+|(?:[' ][0-9]{3})+)(?:\.[0-9]+)?(?![0-9])"
    r"|[0-9]+/[1-9][0-9]*(?![/0-9])|[0-9]+(?:\.[0-9]+)?|\.[0-9]+))",
    re.IGNORECASE,
)
"""A number; the group `comma` has a decimal comma, or several points as thousands separators."""
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_SPOKEN: dict[str, int] = dict(zip(f"zero|{_ONES}|{_TEENS}".split("|"), range(20), strict=True))
_SPOKEN |= dict(zip(_TENS.split("|"), range(20, 100, 10), strict=True))
_CARDINAL = re.compile(rf"(?:({_TENS})(?:[- ]({_ONES}))?|({_ONES}|{_TEENS}|zero))\b", re.IGNORECASE)
_JOINT = re.compile(" and |[ -]", re.IGNORECASE)
_SCALES = {
    "hundred": 2, "thousand": 3, "k": 3, "million": 6, "mn": 6, "m": 6, "billion": 9, "bn": 9,
    "b": 9,
    "trillion": 12, "tn": 12, "millionen": 6, "milliarden": 9, "mio": 6, "mrd": 9,
    "millones": 6, "milliard": 9, "百万": 6, "千万": 7, "万": 4, "十亿": 9, "亿": 8, "万亿": 12,
}  # fmt: skip
_SCALE = re.compile(
    r"(?:[ -]?(hundred|thousand|million|billion|trillion|mn|bn|tn|millionen|milliarden|mio|mrd"
    r"|millones"
    r"|milliard)s?"
    r"|([kmb]))\b|(?P<east> ?(?:[百千]?万|十?亿|万亿))",
    re.IGNORECASE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?:[a-z]+day,? )?(?:[12][0-9]{3}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,"
    r"2}\2[12][0-9]{3}"
    rf"|{_MONTH} [0-3]?[0-9],? [12][0-9]{{3}})(?!\w|[-/.][0-9])",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"(?![0-9]{1,3}(?:\.[0-9]{3}){2,}(?![0-9]|\.[0-9]))[0-9]+(?:\.[0-9]+){2,}|[0-9]+(?::[0-9]+)+"
    r"|[0-9]+[acdefACDEFb](?!\w)"
)
"""A code such as version 3.2.1, 10:30 or figure 3a."""
_WORD = re.compile(
    rf"(?<=[0-9%]) ?- ?(?=[0-9.]|{_SIGN})|[{HAN}]|[^\W\d_{HAN}]+(?:'[^\W\d_{HAN}]+)*(?:\+{{1,2}}"
    rf"|#)?"
    rf"|[^\W_{HAN}]+"
    rf"|[&%\u2030]|{_SIGN}"
)
"""A word; the hyphen of a range counts as one, and so does every Chinese or Japanese character."""
_ENDS = frozenset(".!?\n\u3002")
_CLAUSE_ENDS = _ENDS | frozenset(",;:()[]|\u2026\uff0c\u3001")
_Found = tuple[list[Atom], int]
"""The atoms found at a position, and the end of the last one."""


def read(folded: str) -> list[Atom]:
    """Return the atoms of a folded text in order, without punctuation.

    A text that consists of punctuation has no atoms. The running time is linear in the length of
    the text.
    """
    atoms: list[Atom] = []
    at = 0
    opens = True
    last = 0
    while at < len(folded):
        found = (
            _date(folded, at) or _number(folded, at) or _cardinal(folded, at) or _word(folded, at)
        )
        if found:
            gap = folded[last:at]
            (first, *rest), at = found
            last = at
            atoms += [first._replace(opens=opens, gap=gap), *rest]
            opens = False
        else:
            opens = folded[at] in _ENDS or (opens and folded[at] in " \t\r")
            at += 1
    return atoms


def _date(text: str, at: int) -> _Found | None:
    """Read a date; an ambiguous one, such as 03/04/2021, gets both readings."""
    found = _DATE.match(text, at)
    if not found:
        return None
    from dateutil.parser import ParserError, parse

    try:
        # a leading year is followed by the month
        days = {parse(found[0], dayfirst=day_first).date() for day_first in (False, not found[1])}
    except (ParserError, OverflowError):
        return None
    return [Atom(found[0].casefold(), found[0], days=frozenset(days))], found.end()


def _number(text: str, at: int) -> _Found | None:
    if code := _CODE.match(text, at):
        return [Atom(code[0].casefold(), code[0])], code.end()
    found = _NUMBER.match(text, at)
    # a minus sign right after a word is a hyphen
    if not found or (found["sign"] and text[at - 1 : at].isalnum()):
        return None
    digits = re.sub("[,' ]", "", found["digits"] or "") or re.sub(
        "[. ]", "", found["comma"]
    ).replace(",", ".")
    value = -Fraction(digits) if found["sign"] in ("-", "(") else Fraction(digits)
    scale, end = _scale(text, found.end(), is_money=bool(found["money"]))
    number = Atom(digits, text[at:end], value * scale)
    money = (found["money"] or "").strip(" .")
    return [number, Atom(stem(money), money)] if money else [number], end


def _cardinal(text: str, at: int) -> _Found | None:
    found = _CARDINAL.match(text, at)
    if not found:
        return None
    value = sum(_SPOKEN[name.casefold()] for name in found.groups() if name)
    scale, end = _scale(text, found.end())
    # as in "one hundred and five"
    joint = _JOINT.match(text, end)
    rest = _cardinal(text, joint.end()) if joint and scale > 1 else None
    if rest and (more := rest[0][0].number) is not None and more < scale:
        return [Atom("", text[at : rest[1]], value * scale + more)], rest[1]
    return [Atom("", text[at:end], Fraction(value * scale))], end


def _scale(text: str, end: int, *, is_money: bool = False) -> tuple[int, int]:
    """Return the factor after a number, and its end; `5 m` means metres, and `3b` is a label."""
    found = _SCALE.match(text, end)
    if not found or (found[2] and not is_money and found[2] not in "kKMB"):
        return 1, end
    return 10 ** _SCALES[(found[1] or found[2] or found["east"].strip()).casefold()], found.end()


def _word(text: str, at: int) -> _Found | None:
    found = _WORD.match(text, at)
    if not found:
        return None
    owns = found[0].casefold().endswith("'s")
    raw = found[0][:-2] if owns else found[0]
    return [Atom(stem(raw.strip()), raw, owns=owns)], found.end()
