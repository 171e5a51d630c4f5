"""Words of pages and of queries."""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import cast

from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25s_library import load_bm25s

# Han, Hiragana and Katakana are written without spaces: each character is a token of its own there.
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+"
_PATTERN = re.compile(_TOKEN)
_SOFT_HYPHEN = "\N{SOFT HYPHEN}"


class Stemmer(StrEnum):
    """What reduces words to their stems."""

    NONE = "none"
    ENGLISH = "english"
    """The English Snowball stemmer of the package PyStemmer."""


class Tokenizer:
    """Lower-cased words and numbers, single characters included; nothing is stopped.

    Text is normalised first (NFKC, so that ligatures and full-width forms of PDF text layers match what
    people type). The same text gives the same tokens everywhere; no file and no network is read.

    Raises:
        UserError: The stemmer is not installed.
    """

    def __init__(self, stemmer: Stemmer = Stemmer.NONE) -> None:
        self._stem = _stem_words(stemmer)

    def __call__(self, text: str) -> list[str]:
        """The tokens of `text` in reading order, repetitions included."""
        bm25s = load_bm25s()

        tokenized = bm25s.tokenize(
            [normalise(text)],
            lower=True,
            token_pattern=_TOKEN,
            stopwords=[],
            return_ids=False,
            show_progress=False,
            allow_empty=True,  # no words, no tokens: otherwise bm25s gives the token ""
        )
        (words,) = cast("list[list[str]]", tokenized)  # which `return_ids` makes it
        return self._stem(words)


def normalise(text: str) -> str:
    """The form of a text in which its tokens are found."""
    return unicodedata.normalize("NFKC", text).replace(_SOFT_HYPHEN, "")


def spans(normalised: str) -> Iterator[tuple[int, int, str]]:
    """`(start, end, token)` of each token of a normalised text, lower-cased, not stemmed."""
    for match in _PATTERN.finditer(normalised):
        yield match.start(), match.end(), match[0].lower()


def _stem_words(stemmer: Stemmer) -> Callable[[list[str]], list[str]]:
    if stemmer is Stemmer.NONE:
        return list
    try:
        module = importlib.import_module("Stemmer")
    except ModuleNotFoundError as error:
        raise UserError(
            f"the stemmer {stemmer.value!r} needs the package PyStemmer: pip install PyStemmer"
        ) from error
    # a Snowball object is not thread safe and costs little, so each call has its own
    return lambda words: module.Stemmer(stemmer.value).stemWords(words)
