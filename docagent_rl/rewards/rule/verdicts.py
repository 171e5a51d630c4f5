"""Recognition of answers that say yes or no."""

from collections.abc import Sequence

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.claims import QuestionHints, is_grammar, is_idle
from docagent_rl.rewards.rule.east import with_verdict
from docagent_rl.rewards.rule.lexicon import NEGATORS, NO, REVERSALS, YES


def polarity(folded: str, question: QuestionHints) -> bool | None:
    """Return whether an answer says yes (`True`) or no (`False`); `None` if that is unclear.

    The verdict is the first word, in a clause that says nothing else, or a later word if the rest
    cannot be an answer ("that is correct"). An answer that retracts its verdict, or states the
    opposite with the question's words, is unclear.
    """
    said = read(with_verdict(folded))
    verdicts = [at for at, atom in enumerate(said) if atom.text in YES | NO]
    found = {said[at].text in YES for at in verdicts}
    if len(found) != 1:
        return None
    clauses = _clauses(said)
    if any(sum(atom.text in YES | NO for atom in clause) > 1 for clause in clauses):
        return None
    says = found.pop()
    if verdicts[0] > 0 and not all(
        atom.text in YES | NO or is_idle(atom, question) for atom in said
    ):
        return None
    first, *others = clauses
    if verdicts[0] == 0 and not all(_goes_on(atom, question, says=says) for atom in first[1:]):
        return None
    later = [atom for clause in others for atom in clause if atom.text not in YES | NO]
    return None if _is_taken_back(later, question, says=says) else says


def _clauses(said: Sequence[Atom]) -> list[list[Atom]]:
    clauses: list[list[Atom]] = [[]]
    for atom in said:
        if atom.begins_clause and clauses[-1]:
            clauses.append([])
        clauses[-1].append(atom)
    return clauses


def _goes_on(atom: Atom, question: QuestionHints, *, says: bool) -> bool:
    """Return whether an atom may continue a verdict: "Yes it was paid", but not "No problem"."""
    return atom.key in question.keys or is_grammar(atom) or (atom.text == "not" and not says)


def _is_taken_back(later: Sequence[Atom], question: QuestionHints, *, says: bool) -> bool:
    denies = any(atom.text in NEGATORS for atom in later)
    if says:
        return denies or any(atom.text in REVERSALS for atom in later)
    repeats = any(atom.key in question.keys and not is_grammar(atom) for atom in later)
    is_numbered = bool(later) and later[0].number is not None
    return (repeats and not denies) or is_numbered or any(atom.text == "but" for atom in later)
