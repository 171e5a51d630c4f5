"""What an answer says beside its reference: words that answer nothing, or something else."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.phrases import FRAME, GRAMMAR, NEGATORS, NUMBERED
from docagent_rl.rewards.rule.question import Question


def claims_only(atoms: Sequence[Atom], hits: Collection[int], question: Question) -> bool:
    """Whether an answer says its reference and nothing that could itself be an answer.

    What may stand beside the reference: grammar, the frame of an answer ("according to the report"), words of
    the question, and a place in the document ("page 3"). Beside a reference that consists of such words only
    grammar may stand, and beside one of mere grammar nothing. So a text that holds two references has one of
    them beside the other, and is wrong for both.

    Args:
        atoms: the answer.
        hits: positions of the atoms that say the reference.
        question: what was asked.
    """
    wanted = [atoms[at] for at in hits]
    rest = {at for at in range(len(atoms)) if at not in hits}
    if all(atom.text in NEGATORS or is_idle(atom, question) for atom in wanted):
        beside = (lambda atom: atom.kind is AtomKind.MARK) if all(map(_is_grammar, wanted)) else _is_grammar
        return all(beside(atoms[at]) for at in rest)
    if not any(atom.text in NUMBERED for atom in wanted):
        rest -= _places(atoms, question)
    rest = {at for at in rest if not is_idle(atoms[at], question)}
    if rest and all(atoms[at].text in question.negators for at in rest):
        # "which city is not in France?": Bern is not in France
        return any(is_idle(atom, question) and not _is_frame(atom) for atom in atoms)
    return not rest


def is_idle(atom: Atom, question: Question) -> bool:
    """Whether an atom answers nothing: grammar, the frame of an answer, a word of the question."""
    return _is_grammar(atom) or _is_frame(atom) or (question.repeats(atom) and atom.text not in NEGATORS)


def _is_grammar(atom: Atom) -> bool:
    return atom.kind is AtomKind.MARK or atom.is_article or (atom.text in GRAMMAR and _is_common(atom))


def _is_frame(atom: Atom) -> bool:
    return _is_grammar(atom) or (atom.text in FRAME and _is_common(atom))


def _is_common(atom: Atom) -> bool:
    """Whether a word is no part of a name: Paris Is Burning."""
    return not atom.is_capital or atom.opens


def _places(atoms: Sequence[Atom], question: Question) -> set[int]:
    """Where an answer names a page, a table or the like that was not asked for: two atoms each."""
    found: set[int] = set()
    for at, atom in enumerate(atoms[:-1]):
        label = atom.text in NUMBERED and atom.text not in question.asked
        if label and atoms[at + 1].kind in (AtomKind.QUANTITY, AtomKind.ORDINAL):
            found |= {at, at + 1}
    return found
