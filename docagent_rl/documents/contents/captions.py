"""Captions of figures and tables."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_LONGEST = 300
_KINDS = (
    "figures?|fig\\.|table|chart|exhibit|diagram|abbildung|abb\\.|tabelle|tab\\.|tableau|figura"
    "|tabla|tabela|tabella"
    "|gr[aá]fico|quadro|cuadro|figuur|tabel|rysunek|tabela|рисунок|рис\\.|таблица"
)
_CAPTION = re.compile(
    rf"(?:(?P<kind>(?i:{_KINDS}|fig))\s*(?P<number>\d{{1,3}}(?:[.\-\u2013]\d{{1,3}}){{0,3}}[a-z]?"
    r"|[A-Z](?:[.\-]?\d{1,3})(?:\.\d{1,3}){0,2}|[A-Z](?=[.:]?(?:\s|$))|[IVXLC]{1,7}(?!\w))"
    r"|(?P<east>[図圖图表])\s*(?P<count>\d{1,3}(?:[.\-\u2013]\d{1,3}){0,3}))"
    r"(?P<mark>\s?[.:\u2014\u2013|\uff1a-])?(?P<rest>\s+\S.*|)"
)
_TABLE = re.compile(r"(?i)tab|quadro|cuadro|таб|表")
_LEADERS = re.compile(r"(?:[.\u00b7\u2024\u2026_]\s?){3,}\s*\w{0,8}\s*$")
_ENDS_SENTENCE = (".", ":", "!", "?", ")", "\u3002", '"', "\u201d")
_MARKED_SHARE = 0.6
_FEWEST_MARKED = 5
# words after which a sentence continues with a reference: "... as can be seen in / Figure 3. Then"
_LEADING_WORDS = frozenset(
    """
    a an and are as at by cf compare e.g from i.e in is like of on or per see than that the this to
    under using via vs was with siehe in der die und von nach aus vgl voir dans et de la le du en el
    y ver vedi nella e con del della em no na da do zie
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Caption:
    """The caption of a figure, a table or a chart."""

    text: str
    """The first line of the caption."""
    page: int
    """Page number, 1-based."""

    @property
    def is_of_table(self) -> bool:
        """Return whether it names a table."""
        return _TABLE.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class _Form:
    """The parts of a line that has the form of a caption."""

    kind: str
    number: str
    marked: bool


def is_caption(line: str) -> bool:
    """Return whether a line has the form of a caption."""
    return _form(line) is not None


def captions(pages: Mapping[int, Sequence[str]], *, max_caption: int) -> tuple[Caption, ...]:
    """Return the captions among the lines of pages, in page order, each once.

    A caption is a line that begins with a word such as Figure or Table and a number, followed by a
    mark, by a title or by nothing. References are left out: lines that continue in lower case
    ("Figure 3 shows"), lines in the middle of a sentence, and lines without a mark after the number
    if most captions of that kind have one. Lines that end in dot leaders are left out, too, since
    they belong to a printed list.
    """
    found = _candidates(pages)
    usually_marked = _usually_marked(each.form for each in found)
    certain = {(each.form.kind, each.form.number) for each in found if not each.inside}
    kept = []
    for each in found:
        form = each.form
        if not form.marked and form.kind in usually_marked:
            continue
        # a caption may follow an unfinished line, but only if no better line has its number
        if each.inside and (not form.marked or (form.kind, form.number) in certain):
            continue
        kept.append(Caption(each.line[:max_caption].rstrip(), each.page))
    return tuple(dict.fromkeys(kept))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A line with the form of a caption."""

    page: int
    line: str
    form: _Form
    inside: bool
    """True if the line before it breaks off, so that it may be in the middle of a sentence."""


def _candidates(pages: Mapping[int, Sequence[str]]) -> list[_Candidate]:
    found = []
    for page, lines in pages.items():
        for index, line in enumerate(lines):
            form = _form(line)
            if form is not None:
                inside = index > 0 and _breaks_off(lines[index - 1])
                found.append(_Candidate(page, line, form, inside))
    return found


def _usually_marked(forms: Iterable[_Form]) -> set[str]:
    """Return the kinds of captions that mostly have a mark after their number."""
    marks: dict[str, Counter[bool]] = defaultdict(Counter)
    for form in forms:
        marks[form.kind][form.marked] += 1
    return {
        kind
        for kind, count in marks.items()
        if count[True] >= max(_FEWEST_MARKED, _MARKED_SHARE * count.total())
    }


def _form(line: str) -> _Form | None:
    match = _CAPTION.fullmatch(line[:_LONGEST])
    if match is None or _LEADERS.search(line[-120:]):
        return None
    rest = match["rest"].strip()
    if rest and not match["mark"] and rest[0].islower():
        # lower case continues a sentence, except a single letter, which is a part of the figure
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
