"""Section numbers at the start of lines, and their order."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Number = tuple[int, ...]
"""A section number, such as (2, 1) for 2.1. Letters are above 1,000: appendices follow chapters."""

_LETTER = 1000
_ROMANS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_KEYWORDS = (
    "chapter|section|part|appendix|annex|unit|lesson|module|unidad|lecci[oó]n|unité|leçon|lektion|kapitel|abschnitt|teil|anhang|chapitre|partie|annexe|cap[ií]tulo|secci[oó]n"
    "|seção|parte|ap[eéê]ndice|capitolo|sezione|appendice|hoofdstuk|bijlage|deel|rozdzia[lł]|глава|раздел|часть|приложение"
)
_NAMED = re.compile(
    rf"(?:(?i:{_KEYWORDS})\s+(?P<word>\d{{1,3}}(?:\.\d{{1,3}}){{0,4}}|[A-Z](?:\.\d{{1,3}}){{0,4}}|[IVXLC]{{1,7}})(?!\w)"
    r"|第\s*(?P<east>\d{1,3})\s*[章部節編编章])(?P<mark>[.:\u2014\u2013-]?)\s*(?P<rest>.*)"
)
_PLAIN = re.compile(
    r"(?P<number>\d{1,2}(?:\.\d{1,3}){0,5}|[A-Z](?:\.\d{1,3}){1,5}|[IVX]{1,5}(?=\.\s+[^a-z]*$))"
    r"(?P<mark>[.)]?)\s+(?P<rest>\S.*)"
)
_LETTERED = re.compile(r"^(?:[A-Z]|[IVXLC]{1,7})[.:]?\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class LineLabel:
    """The section number at the start of a line."""

    number: Number
    title: str
    """The rest of the line, possibly empty."""
    named: bool
    """True if it follows a word such as Chapter."""
    marked: bool
    """True if it ends with a full stop, a bracket, a colon or a dash."""


def read_label(line: str) -> LineLabel | None:
    """Return the section number with which a line begins, or None."""
    named = _NAMED.fullmatch(line)
    match = named or _PLAIN.fullmatch(line)
    if match is None:
        return None
    text = (match["word"] or match["east"]) if named else match["number"]
    return LineLabel(
        tuple(map(_part, text.split("."))), match["rest"], bool(named), bool(match["mark"])
    )


def _part(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if len(text) == 1 and text not in "IVX":
        return _LETTER + ord(text) - ord("A") + 1
    return roman(text)


def roman(text: str) -> int:
    """Return the value of a Roman numeral with letters up to C, in any case and spelling."""
    values = [_ROMANS[letter] for letter in text.upper()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))


def title_keys(line: str) -> tuple[str, str]:
    """Return the case-folded letters and digits of a line, with its section number and without."""
    label = read_label(line)
    title = label.title if label else _LETTERED.sub("", line)
    return _plain(line), _plain(title) or _plain(line)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


def longest_sequence(numbers: Sequence[Number]) -> list[int]:
    """Return the positions of the numbers that are most likely section numbers.

    They are the increasing subsequence with the largest score: a step to the first subsection (2 to
    2.1) or to the next number of the same or a higher level (2.1.3 to 2.2 or 3) counts 1, and any
    other step forward 0.1. Lists that start again at 1 and numbers in the text do not fit in. The
    time is O(n log n).
    """
    best = _BestBelow()
    # the best score and last position of sequences that end with a number under a prefix
    under: dict[Number, tuple[float, int]] = {}
    ends: dict[Number, tuple[float, int]] = {}
    before: list[int] = []
    for position, number in enumerate(numbers):
        score, last = best.below(number)
        score += 0.1
        if number[-1] in (0, 1) and len(number) > 1:  # the first subsection
            found = ends.get(number[:-1])
        else:
            found = under.get((*number[:-1], number[-1] - 1))
        if found and found[0] + 1 >= score:
            score = found[0] + 1
            last = found[1]
        before.append(last)
        entry = score, position
        best.add(number, entry)
        ends[number] = max(ends.get(number, entry), entry)
        for depth in range(1, len(number) + 1):
            prefix = number[:depth]
            under[prefix] = max(under.get(prefix, entry), entry)
    positions = []
    position = best.entries[-1][1] if numbers else -1
    while position >= 0:
        positions.append(position)
        position = before[position]
    return positions[::-1]


class _BestBelow:
    """A map from a number to the best `(score, position)` of the smaller numbers in it."""

    def __init__(self) -> None:
        self._numbers: list[Number] = []
        self.entries: list[tuple[float, int]] = []
        """Increasing entries, parallel to `_numbers`; others are dropped."""

    def below(self, number: Number) -> tuple[float, int]:
        place = bisect_left(self._numbers, number)
        return self.entries[place - 1] if place else (0.0, -1)

    def add(self, number: Number, entry: tuple[float, int]) -> None:
        place = end = bisect_left(self._numbers, number)
        if place and self.entries[place - 1] >= entry:
            return
        if self._numbers[place : place + 1] == [number] and self.entries[place] >= entry:
            return
        while end < len(self.entries) and self.entries[end] <= entry:
            end += 1
        self._numbers[place:end] = [number]
        self.entries[place:end] = [entry]
