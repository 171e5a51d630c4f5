"""Hints that a question gives, and what an answer claims besides its reference."""

import re
from collections.abc import Collection, Sequence

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.lexicon import (
    FRAME,
    GRAMMAR,
    NEGATORS,
    NUMBERED,
    RELATIONS,
    TITLES,
    TURNS,
)
from docagent_rl.rewards.rule.words import UNITS, fold

_MAX_CHARS = 2000
_ASKED = re.compile(r"\b(?:which|what) (\w+(?: \w+)?)", re.IGNORECASE)
_BOUNDS = frozenset({"most", "least", "than", "more", "less", "fewer"})
_EAST_RELATIONS = frozenset("少多超低高近前后外除")
_MOST_EAST = 3
"""The most Chinese characters that may follow a number as the noun that it counts."""
_MEASURES = frozenset({*UNITS, "-", "degree", "c", "f", "million", "billion", "thousand", "us"})
_SHORTEST_WORD = 4
_OF_WHAT = frozenset(
    {
        "total",
        "number",
        "value",
        "sum",
        "amount",
        "average",
        "mean",
        "maximum",
        "minimum",
        "range",
        "rate",
        "level",
        "share",
        "score",
        "price",
        "cost",
        "period",
        "weight",
        "length",
        "speed",
        "ratio",
        "temperature",
        "population",
    }
)


class QuestionHints:
    """Hints that a question gives about its answer."""

    def __init__(self, text: str) -> None:
        folded = fold(text[:_MAX_CHARS])
        atoms = read(folded)
        self.keys = frozenset(atom.key for atom in atoms)
        """The roots of its words, so that "opened" in an answer repeats "open"."""
        self.is_choice = any(atom.text == "or" for atom in atoms)
        self.nouns = frozenset(atom.text for atom in atoms if atom.raw[:1].islower()) - GRAMMAR
        """Its lower-case words, which an answer may leave out."""
        self.asked = frozenset(
            word.text for found in _ASKED.findall(folded) for word in read(found)
        )
        """The words right after "which" and "what"."""


def claims_only(
    atoms: Sequence[Atom], hits: Collection[int], question: QuestionHints, *, is_alone: bool = True
) -> bool:
    """Return whether an answer states its reference, at `hits`, and no other possible answer.

    Next to the reference an answer may contain function words, framing phrases ("according to the
    report"), words of the question, and a place in the document ("page 3"). A reference that itself
    consists of such words may only be accompanied by function words, and one that consists of
    function words by nothing. A text that contains two references is therefore wrong for both. A
    number may also be accompanied by other common words, provided that it `is_alone`, that is, not
    an item of a list.
    """
    wanted = [atoms[at] for at in hits]
    rest = [at for at in range(len(atoms)) if at not in hits]
    consists_of_idle_words = all(
        atom.text in NEGATORS or atom.key in question.keys or is_idle(atom, question)
        for atom in wanted
    )
    if consists_of_idle_words:
        if rest and all(map(is_grammar, wanted)):
            return False
        return all(is_grammar(atoms[at]) for at in rest)
    labels = {at for at in rest if atoms[at].text in NUMBERED - question.asked}
    # "page 12" does not state the number 12
    if any(at + 1 in hits and atoms[at + 1].number is not None for at in labels):
        return False
    if _is_related(atoms, hits):
        return False
    if not any(atom.text in NUMBERED for atom in wanted) and not NUMBERED & question.asked:
        # a place in the document, such as "page 3"
        counted_labels = {at for at in labels if _is_count(atoms[at + 1 : at + 3])}
        rest = [at for at in rest if at not in counted_labels and at - 1 not in counted_labels]
    if all(is_idle(atoms[at], question) for at in rest):
        return True
    return is_alone and _is_own_sentence(atoms, hits, question, rest)


def _is_related(atoms: Sequence[Atom], hits: Collection[int]) -> bool:
    """Return whether an answer only relates to the reference, as in "before 2019"."""
    first = min(hits)
    last = max(hits)
    beside = [atoms[at] for at in (first - 1, last + 1) if 0 <= at < len(atoms)]
    if any(atom.text in RELATIONS for atom in beside) or (
        first and atoms[first - 1].text in _BOUNDS
    ):
        return True
    if last + 1 < len(atoms) and atoms[last].owns and not atoms[last + 1].begins_clause:
        return True
    if any(atom.text in _EAST_RELATIONS for atom in atoms[max(first - 2, 0) : first]):
        return True
    of_whom = [
        atom.text
        for atom in atoms[max(first - 4, 0) : first]
        if atom.text not in ("the", "a", "an")
    ]
    return of_whom[-1:] in (["of"], ["for"], ["to"]) and bool(TITLES.intersection(of_whom))


def _is_own_sentence(
    atoms: Sequence[Atom], hits: Collection[int], question: QuestionHints, rest: Sequence[int]
) -> bool:
    """Return whether a full sentence states the number at `hits`: "The company has 350 employees".

    Its clause may contain common words that do not change the claim; other clauses may contain only
    words that cannot be an answer.
    """
    wanted = [atoms[at] for at in hits]
    if not any(atom.number is not None or atom.days for atom in wanted):
        return False
    if not all(atom.number is not None or atom.days or atom.text in _MEASURES for atom in wanted):
        return False
    first = min(hits)
    last = max(hits)
    if len(hits) != last + 1 - first or not _is_whole(atoms, first, last, question):
        return False
    start = max((at for at in range(first + 1) if atoms[at].begins_clause), default=0)
    end = min(
        (at for at in range(last + 1, len(atoms)) if atoms[at].begins_clause), default=len(atoms)
    )
    if not _counts_what(
        atoms, [at for at in rest if not is_idle(atoms[at], question)], first, last
    ):
        return False
    return all(
        is_idle(atoms[at], question) or (start <= at < end and _is_own(atoms[at], question))
        for at in rest
    )


def _counts_what(atoms: Sequence[Atom], own: Sequence[int], first: int, last: int) -> bool:
    """Return whether the answer's own Chinese words directly follow the number that counts them."""
    east = [at for at in own if _is_east(atoms[at].raw)]
    behind = [at for at in east if at > last]
    if east and any(atoms[at].days for at in range(first, last + 1)):
        return False
    if first - 1 in east and atoms[first].gap:
        return False
    return len(behind) <= _MOST_EAST and not any(atoms[at].gap for at in behind)


def _is_whole(atoms: Sequence[Atom], first: int, last: int, question: QuestionHints) -> bool:
    """Return whether the numbers from `first` to `last` stand for themselves.

    They do not if they are part of a code, a measure or a relation.
    """
    if first and (
        _is_glued(atoms[first], atoms[first - 1]) or not _is_of(atoms[max(first - 2, 0) : first])
    ):
        return False
    if last + 1 == len(atoms):
        return True
    behind = atoms[last + 1]
    if behind.begins_clause or is_idle(behind, question):
        return True
    # a short word may be the abbreviation of a unit
    is_short = len(behind.raw) < _SHORTEST_WORD and not _is_east(behind.raw)
    return not (behind.text in UNITS or is_short or _is_glued(behind, atoms[last]))


def _is_of(before: Sequence[Atom]) -> bool:
    """Return whether an "of" before a number is harmless: "a total of 7", not "the rival of 7"."""
    return before[-1].text != "of" or (len(before) > 1 and before[-2].text in _OF_WHAT)


def _is_glued(atom: Atom, before: Atom) -> bool:
    """Return whether no space separates two atoms; Chinese, which has no spaces, is exempt."""
    return atom.gap in ("", "-", ".", "/", "'") and not (_is_east(atom.raw) or _is_east(before.raw))


def _is_east(raw: str) -> bool:
    return raw[:1] >= "\u3040"


def is_plain(atoms: Sequence[Atom], question: QuestionHints) -> bool:
    """Return whether no word could be an answer, or change the meaning of one next to it."""
    return all(_is_own(atom, question) for atom in atoms)


def _is_own(atom: Atom, question: QuestionHints) -> bool:
    """Return whether an atom is a common word, which can neither be nor change an answer."""
    if atom.text in NEGATORS or atom.number is not None or atom.days or not atom.raw.isalpha():
        return False
    if is_idle(atom, question):
        return True
    return atom.text not in TURNS and atom.text not in UNITS and (atom.opens or not atom.is_capital)


def is_idle(atom: Atom, question: QuestionHints) -> bool:
    """Return whether an atom cannot be an answer.

    Such atoms are function words, words of framing phrases, and words of the question.
    """
    # the names and numbers of a question with "or" are options, hence possible answers
    is_open = question.is_choice and (atom.number is not None or not atom.raw.islower())
    is_repeated = atom.key in question.keys and not is_open and atom.text not in NEGATORS
    return is_repeated or is_grammar(atom) or (atom.text in FRAME and _is_common(atom))


def is_grammar(atom: Atom) -> bool:
    """Return whether an atom is a function word that is not part of a name."""
    return atom.text in GRAMMAR and _is_common(atom)


def _is_common(atom: Atom) -> bool:
    """Return whether a word is not part of a name, as "Is" in "Paris Is Burning" is."""
    return not atom.is_capital or (atom.opens and atom.raw != "A")


def _is_count(atoms: Sequence[Atom]) -> bool:
    """Return whether atoms begin with a number in digits that has no unit."""
    return bool(atoms) and atoms[0].raw.replace(".", "").isdigit() and atoms[-1].text not in UNITS
