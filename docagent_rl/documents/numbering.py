"""Section numbers: what they look like, and which of them follow each other."""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

Number = tuple[int, ...]
"""A section number: (2, 1) for 2.1; a letter counts from 1,000 on, so that appendices follow chapters."""

_LETTER = 1000
_ROMANS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_KEYWORDS = (
    "chapter|section|part|appendix|annex|kapitel|abschnitt|teil|anhang|chapitre|partie|annexe|cap[ií]tulo|secci[oó]n"
    "|seção|parte|ap[eéê]ndice|capitolo|sezione|appendice|hoofdstuk|bijlage|deel|rozdzia[lł]|глава|раздел|часть|приложение"
)
_NAMED = re.compile(
    rf"(?:(?i:{_KEYWORDS})\s+(?P<word>\d{{1,3}}(?:\.\d{{1,3}}){{0,4}}|[A-Z](?:\.\d{{1,3}}){{0,4}}|[IVXLC]{{1,7}})(?!\w)"
    r"|第\s*(?P<east>\d{1,3})\s*[章部節编編章])(?P<mark>[.:\u2014\u2013-]?)\s*(?P<rest>.*)"
)
_PLAIN = re.compile(
    r"(?P<number>\d{1,2}(?:\.\d{1,3}){0,5}|[A-Z](?:\.\d{1,3}){1,5})(?P<mark>[.)]?)\s+(?P<rest>\S.*)"
)
_LETTERED = re.compile(r"^(?:[A-Z]|[IVXLC]{1,7})[.:]?\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class Label:
    """The number at the head of a line.

    Args:
        number: for comparison.
        title: what stands behind it; empty when nothing does.
        named: whether a word such as Chapter leads it.
        marked: whether a full stop, a colon or a dash ends it.
    """

    number: Number
    title: str
    named: bool
    marked: bool

    @property
    def level(self) -> int:
        """1 for 2, 2 for 2.1, and so on."""
        return len(self.number)


def read_label(line: str) -> Label | None:
    """The section number that a line begins with, if it begins with one."""
    if match := _NAMED.fullmatch(line):
        text = match["word"] or match["east"]
        return Label(_number(text), match["rest"], True, bool(match["mark"]))
    if match := _PLAIN.fullmatch(line):
        return Label(_number(match["number"]), match["rest"], False, bool(match["mark"]))
    return None


def title_keys(line: str) -> tuple[str, str]:
    """Letters and digits of a line, case folded: with its number and without."""
    label = read_label(line)
    title = label.title if label else _LETTERED.sub("", line)
    return _plain(line), _plain(title) or _plain(line)


def roman(text: str) -> int:
    """The value of a Roman numeral up to the letter C, in capitals or not; odd spellings have a value too."""
    values = [_ROMANS[letter] for letter in text.upper()]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def longest_sequence(numbers: Sequence[Number]) -> list[int]:
    """Positions of the numbers that are most likely section numbers: they rise, most by one step.

    Of all rising subsequences the one of the largest score: a step to the first subsection (2 to 2.1) or to
    the next number of this or a higher level (2.1.3 to 2.2 or 3) counts 1, any other step forward a tenth.
    Lists that start at 1 again and numbers in the text do not fit in. Takes n log n steps.
    """
    ranks = sorted(set(numbers))
    rank_of = {number: rank for rank, number in enumerate(ranks)}
    tree = _PrefixMaximum(len(ranks))
    below: dict[Number, tuple[float, int]] = {}  # best score of a sequence that ends under a prefix
    ends: dict[Number, tuple[float, int]] = {}
    before: list[int] = []
    best = (0.0, -1)
    for position, number in enumerate(numbers):
        score, last = tree.best(bisect.bisect_left(ranks, number))
        score += 0.1
        for table, forerunner in _forerunners(number, below, ends):
            found = table.get(forerunner)
            if found and found[0] + 1 >= score:
                score, last = found[0] + 1, found[1]
        before.append(last)
        entry = (score, position)
        tree.put(rank_of[number], entry)
        ends[number] = max(ends.get(number, entry), entry)
        for depth in range(1, len(number) + 1):
            prefix = number[:depth]
            below[prefix] = max(below.get(prefix, entry), entry)
        best = max(best, entry)
    chosen = []
    position = best[1]
    while position >= 0:
        chosen.append(position)
        position = before[position]
    return chosen[::-1]


def _forerunners(number: Number, below: dict, ends: dict) -> list[tuple[dict, Number]]:
    if number[-1] in (0, 1) and len(number) > 1:
        return [(ends, number[:-1])]
    if number[-1] == _LETTER + 1 and len(number) == 1:
        return []
    return [(below, (*number[:-1], number[-1] - 1))]


class _PrefixMaximum:
    """Largest entry among the first ranks (a Fenwick tree)."""

    def __init__(self, size: int) -> None:
        self._entries = [(0.0, -1)] * (size + 1)

    def put(self, rank: int, entry: tuple[float, int]) -> None:
        index = rank + 1
        while index < len(self._entries):
            self._entries[index] = max(self._entries[index], entry)
            index += index & -index

    def best(self, count: int) -> tuple[float, int]:
        found = (0.0, -1)
        while count > 0:
            found = max(found, self._entries[count])
            count -= count & -count
        return found


def _number(text: str) -> Number:
    return tuple(_part(part) for part in text.split("."))


def _part(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if len(text) == 1 and text not in "IVX":
        return _LETTER + ord(text) - ord("A") + 1
    return roman(text)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())
