"""Coined proper names that no two documents share."""

from __future__ import annotations

import math
import random

from docagent_rl.base.errors import UserError

_ONSETS = (
    "B",
    "Br",
    "C",
    "D",
    "Dr",
    "F",
    "G",
    "Gr",
    "H",
    "K",
    "L",
    "M",
    "N",
    "P",
    "W",
    "R",
    "S",
    "T",
    "Tr",
    "V",
)
_MIDDLES = ("b", "d", "ld", "l", "m", "nd", "n", "nt", "r", "rl", "rn", "rv", "s", "st", "t", "v")
_ENDS = (
    "den",
    "dor",
    "fell",
    "ka",
    "lin",
    "lis",
    "mar",
    "mere",
    "mont",
    "na",
    "nik",
    "ra",
    "ren",
    "ris",
    "ro",
    "sa",
    "sen",
    "ster",
    "ta",
    "tas",
    "ton",
    "va",
    "vale",
    "vik",
)
_VOWELS = "aeiou"

_POOL = len(_ONSETS) * len(_VOWELS) * len(_MIDDLES) * len(_VOWELS) * len(_ENDS)

NAMES_PER_DOCUMENT = 64
"""Names reserved for each document; those it does not use stay unused in the whole corpus."""

MAX_DOCUMENTS = _POOL // NAMES_PER_DOCUMENT
"""Documents a corpus can have before names would repeat."""


class NamePool:
    """A seeded permutation of all coined names, handed out in blocks of `NAMES_PER_DOCUMENT`.

    A name is onset, vowel, middle, vowel, end. Onsets, middles and ends start with consonants and only ends
    hold further vowels, so that different choices spell different names.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"names/{seed}")
        self._offset = rng.randrange(_POOL)
        # Stepping by a number without a common factor visits every name once before any repeats.
        self._step = next(
            step for step in iter(lambda: rng.randrange(_POOL), None) if math.gcd(step, _POOL) == 1
        )

    def block(self, index: int) -> list[str]:
        """The names of document `index`.

        Raises:
            UserError: `index` is beyond the pool.
        """
        if not 0 <= index < MAX_DOCUMENTS:
            raise UserError(
                f"a synthetic corpus holds at most {MAX_DOCUMENTS} documents, found number {index + 1}"
            )
        start = index * NAMES_PER_DOCUMENT
        return [self._name(start + position) for position in range(NAMES_PER_DOCUMENT)]

    def _name(self, position: int) -> str:
        number = (self._offset + position * self._step) % _POOL
        parts = []
        for syllables in (_ONSETS, _VOWELS, _MIDDLES, _VOWELS, _ENDS):
            number, choice = divmod(number, len(syllables))
            parts.append(syllables[choice])
        return "".join(parts)
