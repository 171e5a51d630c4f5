"""Yes and no."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.claims import is_idle
from docagent_rl.rewards.rule.phrases import FRAME, GRAMMAR, NEGATORS, NO, YES
from docagent_rl.rewards.rule.question import Question

_ANSWERS = {"yes": True, "no": False, "true": True, "false": False}


def reference_polarity(reference: Sequence[Atom]) -> bool | None:
    """Whether a reference is yes or no; `None` where it is something else."""
    words = [atom for atom in reference if atom.kind is not AtomKind.MARK]
    return _ANSWERS.get(words[0].text) if len(words) == 1 else None


def polarity(said: Sequence[Atom], question: Question) -> bool | None:
    """Whether an answer says yes or no; `None` where it says neither or both.

    It says so by its first word; or, where the others answer nothing, by a word for yes or no anywhere
    ("that is correct") or by the question's own words ("it was paid"), and one that denies turns these round.
    """
    words = [atom for atom in said if atom.kind is not AtomKind.MARK]
    found = {atom.text in YES for atom in words if atom.text in YES | NO}
    if len(found) > 1 or not words:
        return None
    if words[0].text in YES | NO:
        return found.pop()
    rest = [atom for atom in words if atom.text not in YES | NO]
    if not all(is_idle(atom, question) or atom.text in NEGATORS for atom in rest):
        return None
    if not found and not _echoes(rest, question):
        return None
    denied = any(atom.text in NEGATORS for atom in rest)
    return (True if not found else found.pop()) != denied


def _echoes(words: Sequence[Atom], question: Question) -> bool:
    """Whether an answer says what the question said, which had no alternatives and denied nothing."""
    if not question.is_polar or question.is_choice or question.negators:
        return False
    return any(question.repeats(atom) and atom.text not in GRAMMAR | FRAME for atom in words)
