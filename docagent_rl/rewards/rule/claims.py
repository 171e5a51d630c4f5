"""Hints of a question; claims of an answer beside its reference; yes and no; answers that decline."""

import re
from collections.abc import Collection, Sequence

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.words import FRAME, GRAMMAR, NEGATORS, NO, NUMBERED, UNITS, YES, fold

_MAX_CHARS = 2000
_ASKED = re.compile(r"\b(?:which|what) (\w+(?: \w+)?)", re.IGNORECASE)


class Question:
    """Hints of a question about its answer."""

    def __init__(self, text: str) -> None:
        folded = fold(text[:_MAX_CHARS])
        atoms = read(folded)
        self.keys = frozenset(atom.key for atom in atoms)
        """The words that it says; "opened" repeats "open"."""
        self.is_choice = any(atom.text == "or" for atom in atoms)
        self.nouns = frozenset(atom.text for atom in atoms if atom.raw[:1].islower()) - GRAMMAR
        """Words in lower case; answers may leave them out."""
        self.asked = frozenset(word.text for found in _ASKED.findall(folded) for word in read(found))
        """Words right behind "which" and "what"."""


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


def claims_only(atoms: Sequence[Atom], hits: Collection[int], question: Question) -> bool:
    """Return whether an answer says its reference, at `hits`, and nothing that could itself be an answer.

    What may stand beside the reference: grammar, the frame of an answer ("according to the report"), words of
    the question, and a place in the document ("page 3"). Beside a reference that consists of such words only
    grammar may stand, and beside one of mere grammar nothing. So a text that holds two references has one of
    them beside the other, and is wrong for both.
    """
    wanted = [atoms[at] for at in hits]
    rest = [at for at in range(len(atoms)) if at not in hits]
    if all(atom.text in NEGATORS or atom.key in question.keys or is_idle(atom, question) for atom in wanted):
        return all(_is_grammar(atoms[at]) for at in rest) and not (rest and all(map(_is_grammar, wanted)))
    labels = {at for at in rest if atoms[at].text in NUMBERED - question.asked}
    # page 12 is not 12
    if any(at + 1 in hits and atoms[at + 1].number is not None for at in labels):
        return False
    if not any(atom.text in NUMBERED for atom in wanted):
        places = {at for at in labels if _is_count(atoms[at + 1 : at + 3])}
        rest = [at for at in rest if at not in places and at - 1 not in places]
    return all(is_idle(atoms[at], question) for at in rest)


def is_idle(atom: Atom, question: Question) -> bool:
    """Return whether an atom answers nothing: grammar, the frame of an answer, a word of the question."""
    # names and numbers of a question with "or" are there to choose from
    is_open = question.is_choice and (atom.number is not None or not atom.raw.islower())
    is_repeated = atom.key in question.keys and not is_open and atom.text not in NEGATORS
    return is_repeated or _is_grammar(atom) or (atom.text in FRAME and _is_common(atom))


def _is_grammar(atom: Atom) -> bool:
    return atom.text in GRAMMAR and _is_common(atom)


def _is_common(atom: Atom) -> bool:
    """Return whether a word is no part of a name: Paris Is Burning."""
    return not atom.is_capital or (atom.opens and atom.raw != "A")


def _is_count(atoms: Sequence[Atom]) -> bool:
    """Return whether atoms begin with a number in digits that has no unit."""
    return bool(atoms) and atoms[0].raw.replace(".", "").isdigit() and atoms[-1].text not in UNITS


def polarity(said: Sequence[Atom], question: Question) -> bool | None:
    """Return whether an answer says yes or no, and only one of them; `None` where it does not.

    It says so by its first word, or by another where the rest answers nothing ("that is correct").
    """
    found = {atom.text in YES for atom in said if atom.text in YES | NO}
    if len(found) != 1:
        return None
    is_first = said[0].text in YES | NO
    return (
        found.pop()
        if is_first or all(atom.text in YES | NO or is_idle(atom, question) for atom in said)
        else None
    )


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
