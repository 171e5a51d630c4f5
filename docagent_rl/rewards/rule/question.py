"""Hints of a question about its answer."""

from __future__ import annotations

import functools
import re

from docagent_rl.rewards.rule.atoms import Atom, AtomKind, read
from docagent_rl.rewards.rule.spelling import fold
from docagent_rl.rewards.rule.units import PERCENT, unit_of
from docagent_rl.rewards.rule.words import ARTICLES, GRAMMAR, NEGATORS, PERCENT_WORDS, root

_MAX_CHARS = 2000
_ASKED = re.compile(r"\b(?:which|what) (\w+(?: \w+)?)", re.IGNORECASE)
_POLAR = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)\b", re.IGNORECASE
)


class Question:
    """Hints of a question about its answer; one without words gives none.

    Args:
        text: of the question.
    """

    def __init__(self, text: str) -> None:
        folded = fold(text[:_MAX_CHARS])
        atoms = read(folded)
        words = [atom for atom in atoms if atom.kind is AtomKind.WORD]
        if not words:
            folded, atoms = "", []
        quantities = [atom.quantity for atom in atoms if atom.quantity]
        self.stems = frozenset(atom.text for atom in atoms if atom.kind is not AtomKind.MARK) - ARTICLES
        """Stems of its words; answers may repeat them."""
        self.roots = frozenset(root(atom.raw) for atom in words)
        """Roots of its words, so that "opened" repeats "open"."""
        self.nouns = frozenset(atom.text for atom in words if not atom.is_capital) - GRAMMAR - ARTICLES
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
        """Whether an atom only says what the question said."""
        if atom.quantity:
            return atom.quantity.value in self.values
        if atom.kind is not AtomKind.WORD:
            return atom.text in self.stems
        is_said = atom.text in self.stems or root(atom.raw) in self.roots
        return is_said and not (self.is_choice and atom.text in self.names)


read_question = functools.lru_cache(maxsize=256)(Question)
"""Read a question."""
