"""Tokenisation of pages and queries, for BM25 and for comparing queries."""

import importlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

UNSPACED = (
    r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
"""Scripts without spaces (Han, Hiragana, Katakana, Thai, Lao, Myanmar, Khmer), of which every
character is a word.
"""
WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
MARK = re.compile(r"\S")
_SOFT_HYPHEN = "\N{SOFT HYPHEN}"
# invisible fillers of Hangul, whose category is that of letters; and the replacement character
_UNSEEN = frozenset("\u115f\u1160\u3164\uffa0\ufffd")


class Stemmer(StrEnum):
    """Methods for reducing words to their stems."""

    NONE = "none"
    ENGLISH = "english"
    """The English Snowball stemmer."""


class Tokenizer:
    """A tokenizer that returns folded words and numbers, single characters included.

    There are no stop words. The same text yields the same tokens everywhere; neither files nor the
    network are read.
    """

    def __init__(self, stemmer: Stemmer = Stemmer.NONE) -> None:
        self._stem: Callable[[list[str]], list[str]] = list
        if stemmer is Stemmer.NONE:
            return
        module = importlib.import_module("Stemmer")  # not an import statement, as it has no types
        # a Snowball object is not thread-safe but cheap, so each call creates one
        self._stem = lambda words: module.Stemmer(stemmer.value).stemWords(words)

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of `text` in order, including repetitions."""
        return self.stems(WORD.findall(fold_query(text)))

    def stems(self, words: Iterable[str]) -> list[str]:
        """Return the tokens of folded words, one for each."""
        return self._stem(list(words))


class _Folding(dict[int, str]):
    """The folded form of each character, by its code point."""

    def __missing__(self, code: int) -> str:
        # remove marks first, since case folding turns the Greek iota subscript into a letter; and
        # again afterwards, since it may add new marks
        return self.setdefault(code, _without_marks(_without_marks(chr(code)).casefold()))


_FOLDING = _Folding()


def fold_query(text: str) -> str:
    """Return the folded form in which texts are searched and queries are compared.

    Characters are decomposed (NFKD, so that ligatures and full-width forms in PDF text layers match
    what people type) and case-folded. Accents and other marks above or below a letter are removed,
    and so are invisible characters: soft hyphens, joiners, control and private characters. Whatever
    a retriever of this package drops from a query is dropped here, character by character.
    """
    return text.translate(_FOLDING)


def spans(text: str, pattern: re.Pattern[str] = WORD) -> Iterator[tuple[int, int, str]]:
    """Yield `(start, end, token)` of each match in the folded text, as positions in `text`."""
    places = [place for place, character in enumerate(text) for _ in _FOLDING[ord(character)]]
    for match in pattern.finditer(fold_query(text)):
        yield places[match.start()], places[match.end() - 1] + 1, match[0]


def readable(text: str) -> str:
    """Return a text for display: without ligatures, full-width forms and soft hyphens."""
    return unicodedata.normalize("NFKC", text).replace(_SOFT_HYPHEN, "")


def _without_marks(text: str) -> str:
    return "".join(filter(_is_kept, unicodedata.normalize("NFKD", text)))


def _is_kept(character: str) -> bool:
    category = unicodedata.category(character)
    if category[0] == "C":
        return character.isspace()
    return category not in ("Mn", "Me") and character not in _UNSEEN
