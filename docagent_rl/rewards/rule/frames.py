r"""Extraction of an answer from the text that models put around it.

Models seldom write just an answer. They think, label it (`**Final Answer:** x`, a heading,
`\boxed{x}`), open politely, cite pages, explain and offer more help. `unframe` removes this
framing, whatever the reference is, so that every kind of answer is compared by the same rules. Text
that it does not recognise is left as it is, and the strict rules decide.
"""

import re
from typing import NamedTuple

from docagent_rl.rewards.rule.announcements import HEAD, LABEL, STATED
from docagent_rl.rewards.rule.asides import ASIDE, CITATION, CLOSING, MARKER, SOURCED
from docagent_rl.rewards.rule.markup import BOLD, BOLD_END, BOX, BOX_END, bare, without_markup
from docagent_rl.rewards.rule.openings import CITING, CITING_EAST, POLITE, SEEN
from docagent_rl.rewards.rule.phrases import TURNING

_ROUNDS = 5
"""The most nested layers of framing that are removed."""
_LONGEST_CITATION = 240
_MOST_ANNOUNCED = 8
_BOX = re.compile(f"{BOX}([^{BOX}{BOX_END}]*){BOX_END}")
_BOLD = re.compile(f"{BOLD}([^{BOLD}{BOLD_END}]*){BOLD_END}")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\ue003\"'\u201d)]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_ONE_ITEM = re.compile(
    r"\A\s*(?:[-*\u2022\u2013]|1[.)])\s+(?!(?:jan|feb|m|apr|jun|jul|aug|sep|o|nov|d)\w*\.? \d{4})",
    re.IGNORECASE,
)
_COPULA = re.compile(r"(?:です|でした|입니다|이에요)(?=[。.]?\Z)")
"""A Japanese or Korean copula, which follows the answer."""
_NAMED = re.compile(
    r"\s+(?:is|was) (?:the|my) (?:correct |right |final |best )?answer(?=[.!\s]*\Z)", re.IGNORECASE
)
"""Words that follow an answer at the beginning of its sentence: "Paris is the answer"."""
_EDGES = " \t\r\n"


class Unframed(NamedTuple):
    """An answer without its framing.

    Args:
        text: the remaining text.
        stressed: its only part in bold or code; empty if there is none.
        rest: the text around that part.
    """

    text: str
    stressed: str = ""
    rest: str = ""


def unframe(text: str, *, cites: bool = True) -> Unframed:
    """Return an answer without its framing; the result may be empty.

    Args:
        text: the answer as a model wrote it.
        cites: whether a trailing "page 3" or the like cites the source, rather than being what the
            question asks for.
    """
    left = without_markup(text)
    for _ in range(_ROUNDS):
        peeled = _peel(left, cites=cites)
        if peeled == left:
            break
        left = peeled
    bold = _BOLD.findall(left)
    if len(bold) == 1 and bold[0].strip() != bare(left).strip(" .\n"):
        before, _, behind = left.partition(BOLD)
        behind = behind.partition(BOLD_END)[2]
        return Unframed(bare(left), bold[0], f"{before.rstrip()} \n {behind}")
    return Unframed(bare(left))


def _peel(text: str, *, cites: bool) -> str:
    text = _out_of_box(text)
    text = _announced(text, cites=cites)
    text = _without_closing(text, cites=cites).strip(_EDGES)
    text = _without_opening(text)
    text = _ONE_ITEM.sub("", text) if "\n" not in text else text
    return _without_citation(_NAMED.sub("", _COPULA.sub("", text)), cites=cites)


def _out_of_box(text: str) -> str:
    """Return the content of the box, unless its sentence or the text after it retracts it."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return text
    inner = [found[1].strip(_EDGES) for found in boxes]
    start = _sentence_start(text, boxes[0].start())
    around = _BOX.sub(" ", text[start:])
    if len({_folded(each) for each in inner}) > 1 or TURNING.search(bare(around)):
        return text.replace(BOX, " ").replace(BOX_END, " ")
    return inner[-1]


def _announced(text: str, *, cites: bool) -> str:
    """Return the text after the announcement of an answer, such as a label or a heading.

    Two announcements of different answers cancel each other.
    """
    found = sorted(
        (each.span() for pattern in (HEAD, LABEL, STATED) for each in pattern.finditer(text)),
    )
    if len(found) > _MOST_ANNOUNCED:
        return text
    spans: list[tuple[int, int]] = []
    for start, end in found:
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        elif _is_turned(text, start):
            return text
        else:
            spans.append((start, end))
    if not spans:
        return text
    # an announced answer ends where the next announcement begins
    ends = [start for start, _ in spans[1:]] + [len(text)]
    parts = [text[begin:end].strip(_EDGES) for (_, begin), end in zip(spans, ends, strict=True)]
    answers = [_balanced(part) for part in parts if _folded(part)]
    if not answers:
        return text if text[: spans[0][0]].strip(_EDGES) else ""
    contents = {
        _folded(_without_citation(_without_closing(answer, cites=cites), cites=cites))
        for answer in answers
    }
    return answers[-1] if len(contents) == 1 else text


def _is_turned(text: str, at: int) -> bool:
    """Return whether the sentence negates, before `at`, what follows."""
    return TURNING.search(text, _sentence_start(text, at), at) is not None


def _sentence_start(text: str, at: int) -> int:
    return max((found.end() for found in _SENTENCE_END.finditer(text, 0, at)), default=0)


def _without_closing(text: str, *, cites: bool = True) -> str:
    """Return text without asides and offers after the answer, or reasons before it."""
    text = text.strip(_EDGES)
    aside = ASIDE.search(text)
    if aside and not TURNING.search(text, aside.start()):
        kept = text[: aside.start()].strip(_EDGES)
        if kept:
            text = kept
        else:
            _, blank, behind = text.partition("\n\n")
            text = behind.strip(_EDGES) if blank and behind.strip(_EDGES) else text
    while breaks := [each for each in _SENTENCE_END.finditer(text) if each.end() < len(text)]:
        last = text[breaks[-1].end() :]
        # the full stop in "(ref. page 3)" does not end a sentence
        if last.count("(") != last.count(")") or not (
            CLOSING.fullmatch(last)
            or (cites and SOURCED.fullmatch(last) and not TURNING.search(last))
        ):
            break
        text = text[: breaks[-1].start()].rstrip(_EDGES)
    return text


def _without_opening(text: str) -> str:
    for _ in range(_ROUNDS):
        before = text
        for pattern in (POLITE, CITING, CITING_EAST, SEEN):
            found = pattern.match(text)
            if found and text[found.end() :].strip(" .\n") and not TURNING.search(found[0]):
                text = _balanced(text[found.end() :])
        if text == before:
            return text
    return text


def _without_citation(text: str, *, cites: bool = True) -> str:
    for pattern in (MARKER, CITATION) if cites else (MARKER,):
        found = pattern.search(text, max(len(text) - _LONGEST_CITATION, 0))
        if not found or TURNING.search(found[0]):
            continue
        kept = text[: found.start()]
        if re.search(r"[^\W_]", kept) and kept.rstrip()[-1:] not in ",;[(":
            text = kept + text[found.end() :]
    return text


def _balanced(text: str) -> str:
    """Return text without the markers of a bold part that was cut in two."""
    text = text.strip(_EDGES).removeprefix(BOLD_END).lstrip(_EDGES)
    if text.count(BOLD) == text.count(BOLD_END):
        return text
    return text.replace(BOLD, "").replace(BOLD_END, "")


def _folded(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())
