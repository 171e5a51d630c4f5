"""Lines that begin with a number: section numbers and the order of them, captions of figures and tables."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from docagent_rl.documents.manifest import Box
from docagent_rl.documents.ocr import union
from docagent_rl.documents.typography import Line

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
    r"|第\s*(?P<east>\d{1,3})\s*[章部節編编章])(?P<mark>[.:\u2014\u2013-]?)\s*(?P<rest>.*)"
)
_PLAIN = re.compile(
    r"(?P<number>\d{1,2}(?:\.\d{1,3}){0,5}|[A-Z](?:\.\d{1,3}){1,5})(?P<mark>[.)]?)\s+(?P<rest>\S.*)"
)
_LETTERED = re.compile(r"^(?:[A-Z]|[IVXLC]{1,7})[.:]?\s+(?=\S)")

_LONGEST = 300
_KINDS = (
    "figures?|fig\\.|table|chart|exhibit|diagram|abbildung|abb\\.|tabelle|tab\\.|tableau|figura|tabla|tabela|tabella"
    "|gr[aá]fico|quadro|cuadro|figuur|tabel|rysunek|tabela|рисунок|рис\\.|таблица"
)
_CAPTION = re.compile(
    rf"(?:(?P<kind>(?i:{_KINDS}|fig))\s*(?P<number>\d{{1,3}}(?:[.\-\u2013]\d{{1,3}}){{0,3}}[a-z]?"
    r"|[A-Z](?:[.\-]?\d{1,3})(?:\.\d{1,3}){0,2}|[A-Z](?=[.:]?(?:\s|$))|[IVXLC]{1,7}(?!\w))"
    r"|(?P<east>[図圖图表])\s*(?P<count>\d{1,3}(?:[.\-\u2013]\d{1,3}){0,3}))"
    r"(?P<mark>\s?[.:\u2014\u2013|\uff1a-])?(?P<rest>\s+\S.*|)"
)
_LEADERS = re.compile(r"(?:[.\u00b7\u2024\u2026_]\s?){3,}\s*\w{0,8}\s*$")
_ENDS_SENTENCE = (".", ":", "!", "?", ")", "\u3002", '"', "\u201d")
_MARKED_SHARE = 0.6
_FEWEST_MARKED = 5
_MOST_LINES = 4
_LINE_SPACING = 1.4
# words behind which a line goes on with a reference: "... as can be seen in / Figure 3. Then ..."
_LEADING_WORDS = frozenset(
    """
    a an and are as at by cf compare e.g from i.e in is like of on or per see than that the this to under
    using via vs was with siehe in der die und von nach aus vgl voir dans et de la le du en el y ver vedi
    nella e con del della em no na da do zie
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Label:
    """The number at the head of a line."""

    number: Number
    title: str
    """The rest of the line, maybe empty."""
    named: bool
    """A word such as Chapter leads it."""
    marked: bool
    """A full stop, a colon or a dash ends it."""


def read_label(line: str) -> Label | None:
    """Return the section number that a line begins with, if it begins with one."""
    named = _NAMED.fullmatch(line)
    match = named or _PLAIN.fullmatch(line)
    if match is None:
        return None
    text = (match["word"] or match["east"]) if named else match["number"]
    return Label(tuple(map(_part, text.split("."))), match["rest"], bool(named), bool(match["mark"]))


def _part(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if len(text) == 1 and text not in "IVX":
        return _LETTER + ord(text) - ord("A") + 1
    return roman(text)


def roman(text: str) -> int:
    """Return the value of a Roman numeral up to the letter C, in capitals or not, oddly spelt or not."""
    values = [_ROMANS[letter] for letter in text.upper()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))


def title_keys(line: str) -> tuple[str, str]:
    """Return the letters and digits of a line, case folded: with its number and without."""
    label = read_label(line)
    title = label.title if label else _LETTERED.sub("", line)
    return _plain(line), _plain(title) or _plain(line)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


def longest_sequence(numbers: Sequence[Number]) -> list[int]:
    """Return the positions of the numbers that are most likely section numbers: they rise, most by one step.

    Of all rising subsequences the one of the largest score: a step to the first subsection (2 to 2.1) or to
    the next number of this or a higher level (2.1.3 to 2.2 or 3) counts 1, any other step forward a tenth.
    Lists that start at 1 again and numbers in the text do not fit in. Takes n log n steps.
    """
    best = _BestBelow()
    under: dict[Number, tuple[float, int]] = {}  # best score of a sequence that ends under a prefix
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
            score, last = found[0] + 1, found[1]
        before.append(last)
        entry = score, position
        best.add(number, entry)
        ends[number] = max(ends.get(number, entry), entry)
        for depth in range(1, len(number) + 1):
            prefix = number[:depth]
            under[prefix] = max(under.get(prefix, entry), entry)
    positions, position = [], best.entries[-1][1] if numbers else -1
    while position >= 0:
        positions.append(position)
        position = before[position]
    return positions[::-1]


class _BestBelow:
    """The best `(score, position)` of the numbers below any number."""

    def __init__(self) -> None:
        self._numbers: list[Number] = []
        self.entries: list[tuple[float, int]] = []
        """Entries that no smaller number exceeds: they rise."""

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


@dataclass(frozen=True, slots=True)
class Caption:
    """The caption of a figure, a table or a chart."""

    text: str
    """Its first line."""
    page: int
    """1-based."""
    box: Box | None = field(default=None, compare=False)
    """The lines of the caption on that page, up to four; None where their places are not known."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A line in the form of a caption."""

    kind: str
    number: str
    marked: bool


def is_caption(line: str) -> bool:
    """Return whether a line has the form of a caption."""
    return _form(line) is not None


def captions(pages: Mapping[int, Sequence[Line]], *, max_caption: int) -> tuple[Caption, ...]:
    """Return the captions among the lines of pages, in page order, each once.

    A caption is a line that begins with a word such as Figure or Table and a number, followed by a mark, by a
    title or by nothing. References are left out: lines that go on in small letters ("Figure 3 shows"), lines
    in the middle of a sentence, and, where most captions of a kind have a mark behind the number, those
    without one. So are lines that end in dot leaders, which belong to a printed list.
    """
    found = [
        (page, lines, index, form, index > 0 and _breaks_off(lines[index - 1].text))
        for page, lines in pages.items()
        for index, line in enumerate(lines)
        if (form := _form(line.text))
    ]
    marks: dict[str, Counter[bool]] = defaultdict(Counter)
    for _, _, _, form, _ in found:
        marks[form.kind][form.marked] += 1
    usually_marked = {
        kind
        for kind, count in marks.items()
        if count[True] >= max(_FEWEST_MARKED, _MARKED_SHARE * count.total())
    }
    certain = {(form.kind, form.number) for _, _, _, form, inside in found if not inside}
    kept = (
        Caption(lines[index].text[:max_caption].rstrip(), page, _box(lines, index))
        for page, lines, index, form, inside in found
        if (form.marked or form.kind not in usually_marked)
        # a caption may stand below any line, but then no better one has its number
        and not (inside and (not form.marked or (form.kind, form.number) in certain))
    )
    return tuple(dict.fromkeys(kept))


def _form(line: str) -> _Form | None:
    match = _CAPTION.fullmatch(line[:_LONGEST])
    if match is None or _LEADERS.search(line[-120:]):
        return None
    rest = match["rest"].strip()
    if rest and not match["mark"] and rest[0].islower():
        # small letters go on a sentence; a single one names a part of the figure
        first = rest.split(maxsplit=1)[0].strip("()")
        if len(first) != 1 or len(rest) > 3:
            return None
    kind = (match["kind"] or match["east"]).casefold().rstrip(".")
    return _Form(kind[:3], match["number"] or match["count"], bool(match["mark"]))


def _breaks_off(before: str) -> bool:
    """Return whether a line ends in the middle of a sentence."""
    if not before or before.endswith(_ENDS_SENTENCE):
        return False
    last = before.rsplit(maxsplit=1)[-1].casefold().strip(".,;([")
    return last in _LEADING_WORDS or before.endswith((",", ";", "(", "["))


def _box(lines: Sequence[Line], index: int) -> Box | None:
    """Return the box of a caption: its first line and those that follow it closely."""
    if (last := lines[index].box) is None:
        return None
    boxes = [last]
    for line in lines[index + 1 : index + _MOST_LINES]:
        if line.box is None or is_caption(line.text) or not _goes_on(boxes[-1], line.box):
            break
        boxes.append(line.box)
    return union(boxes)


def _goes_on(above: Box, below: Box) -> bool:
    height, other = above[3] - above[1], below[3] - below[1]
    # a cell of a table beside it is on the same height, the next paragraph further away
    near = 0.5 * height < below[3] - above[3] < _LINE_SPACING * height
    alike = abs(height - other) < 0.25 * max(height, other)
    return near and alike and below[0] < above[2] and above[0] < below[2]
