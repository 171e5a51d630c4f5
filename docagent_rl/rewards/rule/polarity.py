"""Yes and no."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.claims import split
from docagent_rl.rewards.rule.phrases import (
    ARTICLES,
    FRAME,
    FUNCTION,
    NEGATORS,
    NO,
    PREPOSITIONS,
    UNSURE,
    YES,
)
from docagent_rl.rewards.rule.question import Question
from docagent_rl.rewards.rule.spelling import root

_ANSWERS = {"yes": True, "no": False, "true": True, "false": False}


def reference_polarity(reference: Sequence[Atom]) -> bool | None:
    """Whether a reference is yes or no; `None` where it is something else."""
    words = [atom for atom in reference if atom.kind is not AtomKind.MARK]
    return _ANSWERS.get(words[0].text) if len(words) == 1 else None


def polarity(said: Sequence[Atom], question: Question) -> bool | None:
    """Whether an answer says yes or no; `None` where it says neither or both."""
    found: set[bool] = set()
    for position, segment in enumerate(split(said)):
        pieces = _pieces(segment.atoms)
        for piece in pieces:
            verdict = _verdict(piece, first=position == 0 and piece is pieces[0])
            if verdict is not None:
                found.add(verdict)
    if len(found) == 1:
        return found.pop()
    return None if found else _echo(said, question)


def _pieces(atoms: Sequence[Atom]) -> list[list[Atom]]:
    pieces: list[list[Atom]] = [[]]
    for atom in atoms:
        if atom.text in ("and", "or"):
            pieces.append([])
        else:
            pieces[-1].append(atom)
    return [piece for piece in pieces if piece]


def _verdict(piece: Sequence[Atom], *, first: bool) -> bool | None:
    """What one piece says; only one made of nothing else, or the first of all by its first word, counts."""
    words = [atom for atom in piece if atom.kind is not AtomKind.MARK]
    if not words:
        return None
    spoken = [atom for atom in words if atom.text in YES | NO]
    if not spoken:
        return None
    idle = FUNCTION | FRAME | ARTICLES | UNSURE | NEGATORS | PREPOSITIONS | YES
    pure = all(atom.text in idle for atom in words)
    if not pure and not (first and words[0].text in YES | NO):
        return None
    word = spoken[0] if not pure else spoken[-1]
    negated = sum(atom.text in NEGATORS and atom.text not in NO for atom in words) % 2 == 1
    return (word.text in YES) != (negated and pure)


def _echo(said: Sequence[Atom], question: Question) -> bool | None:
    """An answer that says the question's own words affirms them, or denies them with a "not"."""
    if not question.is_polar or question.is_choice or question.negators:
        return None
    dropped = FUNCTION | FRAME | ARTICLES | PREPOSITIONS | NEGATORS
    words = [atom for atom in said if atom.kind is not AtomKind.MARK and atom.text not in dropped]
    asked = {root(stem) for stem in question.stems}
    echoed = sum(root(atom.raw) in asked for atom in words)
    if not words or echoed < len(words):
        return None
    return not any(atom.text in NEGATORS for atom in said)
