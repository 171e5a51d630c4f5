"""Hints of a question about its answer."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from decimal import Decimal

from docagent_rl.rewards.rule.atoms import Atom, AtomKind, read
from docagent_rl.rewards.rule.spelling import fold
from docagent_rl.rewards.rule.units import PERCENT, Unit, unit_of
from docagent_rl.rewards.rule.words import ARTICLES, GRAMMAR, NEGATORS, PERCENT_WORDS, root

_MAX_CHARS = 2000
_ASKED = re.compile(r"\b(?:which|what) (\w+(?: \w+)?)", re.IGNORECASE)
_POLAR = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Question:
    """Hints of a question about its answer.

    Args:
        stems: of its words; answers may repeat them.
        roots: of its words, so that "opened" repeats "open".
        nouns: of its words in lower case; answers may leave them out.
        names: of its words that begin with a capital.
        asked: words right behind "which" and "what".
        values: numbers in it.
        units: units that it names.
        is_choice: whether it offers alternatives.
        is_polar: whether it is answered by yes or no.
        negators: words in it that negate.
        counts: whether it asks how many.
    """

    stems: frozenset[str] = frozenset()
    roots: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    values: frozenset[Decimal] = frozenset()
    units: frozenset[Unit] = frozenset()
    is_choice: bool = False
    is_polar: bool = False
    negators: frozenset[str] = frozenset()
    counts: bool = False

    def repeats(self, atom: Atom) -> bool:
        """Whether an atom only says what the question said."""
        if atom.quantity:
            return atom.quantity.value in self.values
        if atom.kind is not AtomKind.WORD:
            return atom.text in self.stems
        is_said = atom.text in self.stems or root(atom.raw) in self.roots
        return is_said and not (self.is_choice and atom.text in self.names)


@functools.lru_cache(maxsize=256)
def read_question(text: str) -> Question:
    """Read a question; one without words says nothing."""
    folded = fold(text[:_MAX_CHARS])
    atoms = read(folded)
    words = [atom for atom in atoms if atom.kind is AtomKind.WORD]
    if not words:
        return Question()
    stems = frozenset(atom.text for atom in atoms if atom.kind is not AtomKind.MARK) - ARTICLES
    quantities = [atom.quantity for atom in atoms if atom.quantity]
    units = {unit_of(atom.raw) for atom in words if len(atom.raw) > 1} | {each.unit for each in quantities}
    if PERCENT_WORDS & stems or "%" in folded:
        units.add(PERCENT)
    return Question(
        stems=stems,
        roots=frozenset(root(atom.raw) for atom in words),
        nouns=frozenset(atom.text for atom in words if not atom.is_capital) - GRAMMAR - ARTICLES,
        names=frozenset(atom.text for atom in words if atom.is_capital),
        asked=frozenset(word.text for found in _ASKED.findall(folded) for word in read(found)),
        values=frozenset(quantity.value for quantity in quantities),
        units=frozenset(unit for unit in units if unit is not None),
        is_choice="or" in stems,
        is_polar=bool(_POLAR.match(folded)),
        negators=NEGATORS & stems,
        counts="how many" in folded.casefold(),
    )
