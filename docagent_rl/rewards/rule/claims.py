"""Hints of a question; claims of an answer beside its reference; yes and no; answers that decline."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.units import PERCENT, unit_of
from docagent_rl.rewards.rule.words import (
    FRAME,
    GRAMMAR,
    NEGATORS,
    NO,
    NUMBERED,
    PERCENT_WORDS,
    YES,
    fold,
    root,
)

_MAX_CHARS = 2000
_ASKED = re.compile(r"\b(?:which|what) (\w+(?: \w+)?)", re.IGNORECASE)
_POLAR = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b", re.IGNORECASE
)


class Question:
    """Hints of a question about its answer; one without words gives none."""

    def __init__(self, text: str) -> None:
        folded = fold(text[:_MAX_CHARS])
        atoms = read(folded)
        words = [atom for atom in atoms if atom.value is None]
        if not words:
            folded, atoms = "", []
        quantities = [atom.quantity for atom in atoms if atom.quantity]
        self.stems = frozenset(atom.text for atom in atoms)
        """Stems of its words; answers may repeat them."""
        self.roots = frozenset(root(atom.raw) for atom in words)
        """Roots of its words, so that "opened" repeats "open"."""
        self.nouns = frozenset(atom.text for atom in words if not atom.is_capital) - GRAMMAR
        """Words in lower case; answers may leave them out."""
        self.names = frozenset(atom.text for atom in words if atom.is_capital)
        self.asked = frozenset(word.text for found in _ASKED.findall(folded) for word in read(found))
        """Words right behind "which" and "what"."""
        self.values = frozenset(quantity.value for quantity in quantities)
        units = {unit_of(atom.raw) for atom in words if len(atom.raw) > 1}
        units |= {quantity.unit for quantity in quantities}
        is_share = PERCENT_WORDS & self.stems or "%" in folded
        self.units = frozenset(unit for unit in units if unit) | ({PERCENT} if is_share else set())
        """Units that it names."""
        self.is_choice = "or" in self.stems
        self.is_polar = bool(_POLAR.match(folded))
        self.negators = NEGATORS & self.stems
        self.counts = "how many" in folded.casefold()

    def repeats(self, atom: Atom) -> bool:
        """Return whether an atom only says what the question said."""
        if atom.quantity:
            return atom.quantity.value in self.values
        if atom.value is not None:
            return atom.text in self.stems
        return root(atom.raw) in self.roots and not (self.is_choice and atom.text in self.names)


read_question = functools.lru_cache(maxsize=256)(Question)
"""Read a question."""


_NOT = r"(?:do|does|did|could|can|is|are|was|were|has|have)(?: not|nt) "
_SAYS = (
    r"(?:know|mention|say|state|specify|provide|contain|give|include|report|disclose|have|list|show|indicate"
    r"|appear|find|answer|determine|tell|explain|describe|cover|address)"
)
_DECLINES = re.compile(
    r"\b(?:(?:not|non|isnt|arent) ?answerable|unanswerable|n/?a|unknown"
    r"|not (?:be )?(?:known|determined|answered|found)"
    r"|(?:can ?not|cant|could not|couldnt|unable to|not possible to|impossible to|not able to) "
    r"(?:be )?(?:answer|determin|f[io]u?nd|tell|say|infer|identif|locat|establish|conclud|deduc|see)\w*"
    rf"|{_NOT}{_SAYS}"
    r"|(?:not|isnt|arent|wasnt|werent) (?:enough|sufficient|mentioned|stated|specified|provided|given"
    r"|available|disclosed|reported|included|listed|shown|indicated|applicable|recorded|contained)"
    r"|insufficient (?:information|data|context|evidence)"
    r"|no (?:answer|information|mention|data|evidence|details?|indication|sample)"
    r"|none of the \w+ (?:gives?|mentions?|states?|says?|contains?|provides?|lists?)|no idea|not sure)\b",
)
_STRONG = re.compile(
    r"\b(?:(?:not|non|isnt) ?answerable|unanswerable|n/a|(?:can ?not|cant) be (?:answered|determined)"
    r"|(?:do not|dont) know|no idea)\b|\A\W*(?:unknown|no answer|na)\W*\Z",
)
_LONGEST_REFERENCE = 10
_POLARITIES = {"yes": True, "no": False, "true": True, "false": False}


def claims_only(atoms: Sequence[Atom], hits: Collection[int], question: Question) -> bool:
    """Return whether an answer says its reference, at `hits`, and nothing that could itself be an answer.

    What may stand beside the reference: grammar, the frame of an answer ("according to the report"), words of
    the question, and a place in the document ("page 3"). Beside a reference that consists of such words only
    grammar may stand, and beside one of mere grammar nothing. So a text that holds two references has one of
    them beside the other, and is wrong for both.
    """
    wanted = [atoms[at] for at in hits]
    rest = [at for at in range(len(atoms)) if at not in hits]
    if all(atom.text in NEGATORS or is_idle(atom, question) for atom in wanted):
        return all(_is_grammar(atoms[at]) for at in rest) and not (rest and all(map(_is_grammar, wanted)))
    if not any(atom.text in NUMBERED for atom in wanted):
        places = _places(atoms, question)
        rest = [at for at in rest if at not in places]
    return all(is_idle(atoms[at], question) for at in rest)


def is_idle(atom: Atom, question: Question) -> bool:
    """Return whether an atom answers nothing: grammar, the frame of an answer, a word of the question."""
    is_frame = atom.text in FRAME and _is_common(atom)
    return _is_grammar(atom) or is_frame or (question.repeats(atom) and atom.text not in NEGATORS)


def _is_grammar(atom: Atom) -> bool:
    return atom.text in GRAMMAR and _is_common(atom)


def _is_common(atom: Atom) -> bool:
    """Return whether a word is no part of a name: Paris Is Burning."""
    return not atom.is_capital or atom.opens


def _places(atoms: Sequence[Atom], question: Question) -> set[int]:
    """Return where an answer names a page, a table or the like that was not asked for: two atoms each."""
    labels = [at for at, atom in enumerate(atoms[:-1]) if atom.text in NUMBERED - question.asked]
    return {place for at in labels if _is_number(atoms[at + 1]) for place in (at, at + 1)}


def _is_number(atom: Atom) -> bool:
    return atom.quantity is not None and atom.quantity.unit is None and atom.text != ""


def reference_polarity(reference: Sequence[Atom]) -> bool | None:
    """Return whether a reference is yes or no; `None` where it is something else."""
    return _POLARITIES.get(reference[0].text) if len(reference) == 1 else None


def polarity(said: Sequence[Atom], question: Question) -> bool | None:
    """Return whether an answer says yes or no; `None` where it says neither or both.

    It says so by its first word; or, where the others answer nothing, by a word for yes or no anywhere
    ("that is correct") or by the question's own words ("it was paid"), and one that denies turns these round.
    """
    found = {atom.text in YES for atom in said if atom.text in YES | NO}
    if len(found) > 1 or not said:
        return None
    if said[0].text in YES | NO:
        return found.pop()
    rest = [atom for atom in said if atom.text not in YES | NO]
    if not all(is_idle(atom, question) or atom.text in NEGATORS for atom in rest):
        return None
    # what the question said, which had no alternatives and denied nothing
    asks = question.is_polar and not question.is_choice and not question.negators
    if not found and asks:
        found = {True for word in rest if question.repeats(word) and word.text not in GRAMMAR | FRAME}
    return found.pop() != any(atom.text in NEGATORS for atom in rest) if found else None


def is_refusal(reference: str) -> bool:
    """Return whether a reference says that there is no answer."""
    low = _low(reference)
    return len(low.split()) <= _LONGEST_REFERENCE and bool(
        _STRONG.search(low) or _DECLINES.fullmatch(low.strip(" .!"))
    )


def mentions_refusal(folded: str) -> bool:
    """Return whether a text says anywhere, in so many words, that there is no answer."""
    return bool(_STRONG.search(_low(folded)))


def declines(folded: str, question: Question) -> bool:
    """Return whether an answer declines and says nothing else that could be an answer."""
    rest, times = _DECLINES.subn(" ", _low(folded))
    return times > 0 and all(is_idle(atom, question) for atom in read(rest))


def _low(text: str) -> str:
    return " ".join(text.casefold().replace("'", "").replace("\u2019", "").split())
