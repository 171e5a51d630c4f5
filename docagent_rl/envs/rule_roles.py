"""Rules that replace the models of roles (`RoleName`): offline, deterministic, and blind to gold.

They are meant for laptops, tests and first runs: they can answer easy questions and decline
unanswerable ones. Reproducing the paper's numbers requires models.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from docagent_rl.documents.contents import Heading
from docagent_rl.retrieval.tokens import readable, spans
from docagent_rl.rewards.mmlongbench import FAIL_TO_ANSWER
from docagent_rl.rewards.text import NOT_ANSWERABLE

INSUFFICIENT = "The available information is not enough to answer the question."

_STOP_WORDS = """
    a an and are as at be been being but by can could did do does for from had has have how i if
    in into is it its made many may me might more most much must my no not of off on or our
    shall she he should so than that the their them then there these they this those to under up
    was we were what when where which while who whom whose why will with would you your
    according following document page pages please answer list number value name
"""
_STOP = frozenset(_STOP_WORDS.split())
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NUMBER = re.compile(r"[-\u2212]?\$?\d[\d,]*(?:\.\d+)?\s?%?")
_ABSTAINS = re.compile(
    r"not (?:answerable|enough|sufficient|mentioned|stated|provided|specified|available)"
    r"|cannot (?:be )?answer|cannot be determined|can't answer|insufficient|unanswerable"
    r"|lack of relevant data|no information",
    re.IGNORECASE,
)
_UNREADABLE = re.compile(
    r"(?:cannot|can't|unable to|could not) (?:be )?(?:read|open|see|view|access)", re.IGNORECASE
)
_MAX_SENTENCE = 600
_STEM = 5
_SHORT_WORDS = 6
_PLANNED_SECTIONS = 3
_PLANNED_WORDS = 6


def content_words(text: str) -> list[str]:
    """Return the distinct content words of a text, in lower case and in order."""
    words = (token for _, _, token in spans(text))
    return list(dict.fromkeys(word for word in words if word not in _STOP))


def plan_search(question: str, contents: Sequence[Heading]) -> str:
    """Return a plan made of the question's words and the headings that share most of them."""
    words = content_words(question)
    wanted = frozenset(words)
    overlaps = [(len(wanted.intersection(content_words(entry.title))), entry) for entry in contents]
    best = sorted((pair for pair in overlaps if pair[0]), key=lambda pair: -pair[0])[
        :_PLANNED_SECTIONS
    ]
    named = ", ".join(words[:_PLANNED_WORDS]) or question.strip()
    steps = [f"Search for: {named}."]
    steps += [f'Read page {entry.page}, where "{entry.title}" begins.' for _, entry in best]
    steps.append("Read the pages that the search finds, and finish when they answer the question.")
    return "\n".join(f"({number}) {step}" for number, step in enumerate(steps, start=1))


def read_pages(pages: Iterable[tuple[int, str]]) -> str:
    """Return the text layers of the pages, each after its page number."""
    return "\n".join(f"Page {page}: {text.strip() or 'no text.'}" for page, text in pages)


def answer_from(question: str, texts: Iterable[str]) -> str:
    """Return the sentence or line that shares most words with the question.

    Returns a refusal if no candidate shares half of the question's words, or if a name in the
    question occurs nowhere. Words are compared by their first five letters. The first of equal
    candidates wins; sentences come before lines.
    """
    candidates = _candidates(texts)
    stems = [_stems(candidate) for candidate in candidates]
    wanted = _stems(question)
    # names are capitalised words after the first one
    names = [word for word in question.split()[1:] if word[0].isupper()]
    if not _stems(" ".join(names)) <= frozenset().union(*stems):
        return INSUFFICIENT
    best = INSUFFICIENT
    most = 0.0
    for candidate, held in zip(candidates, stems, strict=True):
        shared = len(wanted & held)
        likeness = shared / (len(wanted) + len(held)) if 2 * shared >= len(wanted) > 0 else 0.0
        if likeness > most:
            best = candidate
            most = likeness
    return best


def extract_answer(question: str, answer: str) -> str:
    """Return the short answer and its type in the two-line format of an extractor.

    A refusal and an unreadable document have labels of their own. A short answer is kept whole. A
    longer one is reduced to the first number that does not occur in the question, or else to what
    remains without the question's words.
    """
    text = " ".join(answer.split())
    if not text or _ABSTAINS.search(text):
        return _form(NOT_ANSWERABLE, "String")
    if _UNREADABLE.search(text):
        return _form(FAIL_TO_ANSWER, "String")
    if len(text.split()) <= _SHORT_WORDS:
        return _form(text.rstrip("."), _kind(text.rstrip(".")))
    asked = {match[0].strip() for match in _NUMBER.finditer(question)}
    numbers = [match[0].strip() for match in _NUMBER.finditer(text)]
    number = next((number for number in numbers if number not in asked), None)
    short = number.replace(",", "") if number else _remainder(question, text) or text
    return _form(short, _kind(short))


def _candidates(texts: Iterable[str]) -> list[str]:
    pages = list(texts)
    sentences = [piece for text in pages for piece in _SENTENCE_END.split(" ".join(text.split()))]
    lines = [" ".join(line.split()) for text in pages for line in text.splitlines()]
    return [piece[:_MAX_SENTENCE] for piece in (*sentences, *lines) if piece]


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text))


def _remainder(question: str, text: str) -> str:
    """Return the answer's longest run of words that are neither in the question nor stop words."""
    known = frozenset(token for _, _, token in spans(question)) | _STOP
    plain = readable(text)
    runs = [
        list(run) for held, run in groupby(spans(plain), lambda span: span[2] in known) if not held
    ]
    return max((plain[run[0][0] : run[-1][1]] for run in runs), key=len, default="")


def _kind(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        return "String"
    return "Float" if "." in text or "%" in text else "Integer"


def _form(answer: str, kind: str) -> str:
    return f"Extracted answer: {answer}\nAnswer format: {kind}"
