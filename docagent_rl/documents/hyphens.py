"""Hyphens at the ends of lines: they split a word, or belong to a hyphenated compound."""

import re
from collections import Counter
from collections.abc import Iterable

# PDFium puts U+0002 (older builds: U+FFFE) in place of a hyphen and line break inside a word.
_MARKS = "\x02\ufffe"
_LINE_END = re.compile("(?P<before>[^\\W\\d_]*)[" + _MARKS + "](?=(?P<after>[^\\W\\d_]*))")
_WORD = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile(r"(?<![^\W\d_])(?=([^\W\d_]+-[^\W\d_]+))")


class Spellings:
    """Counts of words, and of compounds that pages write with a hyphen within a line."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._seen: Counter[str] = Counter()
        for text in texts:
            folded = text.casefold()
            self._seen.update(_WORD.findall(folded))
            self._seen.update(_COMPOUND.findall(folded))

    def joined(self, text: str) -> str:
        """Return a text from PDFium without its line-end hyphens, except those of compounds.

        A hyphen stays if the pages write the compound more often with it than without it.
        """
        return _LINE_END.sub(self._join, text) if splits_words(text) else text

    def _join(self, match: re.Match[str]) -> str:
        before = match["before"]
        after = match["after"]
        with_hyphen = self._seen[f"{before}-{after}".casefold()]
        is_compound = with_hyphen > self._seen[f"{before}{after}".casefold()]
        return f"{before}-" if is_compound else before


def splits_words(text: str) -> bool:
    """Return whether a text from PDFium has hyphens at the ends of lines."""
    return any(mark in text for mark in _MARKS)
