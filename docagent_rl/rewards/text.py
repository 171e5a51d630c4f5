"""Comparing short texts: normalisation, edit distance, ANLS, token recall."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from decimal import Decimal

_ARTICLES = frozenset({"a", "an", "the"})
_UNITS = frozenset({"percent", "pct"})
_NUMBER_WORDS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6",
    "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13",
    "fourteen": "14", "fifteen": "15", "sixteen": "16", "seventeen": "17", "eighteen": "18",
    "nineteen": "19", "twenty": "20",
}  # fmt: skip
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_MAX_DIGITS = 40
# a number with optional sign, thousands separators and decimals; anything else is a run of word characters.
# The look-behinds also keep the search linear: a long chain of groups is tried once, at its start.
_TOKEN = re.compile(r"(?<![\w.,])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,])|(?<![\w.])-?\d+(?:\.\d+)?(?!\w)|\w+")
_APOSTROPHES = re.compile(r"['\u2019`]")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def tokens(text: str) -> list[str]:
    """The normalised tokens of a text.

    In order: Unicode NFKC; lower case; apostrophes removed; numbers recognised with sign, thousands
    separators and decimals (`1,234.50` becomes `1234.5`, `007` becomes `7`); all other punctuation, currency
    and per cent signs separate tokens and vanish; number words up to twenty become digits; a number followed
    by thousand, million, billion or trillion becomes one number; articles and the word percent are dropped,
    unless nothing would remain.
    """
    folded = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", text).casefold().replace("\u2212", "-"))
    raw = [_canonical(token) for token in _TOKEN.findall(folded.replace("_", " "))]
    scaled = _join_scales(raw)
    return [token for token in scaled if token not in _ARTICLES and token not in _UNITS] or scaled


def is_number(token: str) -> bool:
    """Whether a normalised token is a number."""
    return token.removeprefix("-").replace(".", "", 1).isdecimal()


def squad_normalise(text: str) -> str:
    """SQuAD's normalisation: lower case, ASCII punctuation deleted, articles dropped, single spaces."""
    words = text.lower().translate(_PUNCTUATION).split()
    return " ".join(word for word in words if word not in _ARTICLES)


def token_recall(reference: str, prediction: str) -> float:
    """Share of the reference's tokens, counted with multiplicity, that the prediction holds; in `[0, 1]`."""
    wanted = Counter(squad_normalise(reference).split())
    found = wanted & Counter(squad_normalise(prediction).split())
    return found.total() / wanted.total() if wanted else 0.0


def anls(reference: str, prediction: str, threshold: float = 0.5) -> float:
    """Average normalised Levenshtein similarity of one pair, lower case, outer spaces removed (MP-DocVQA).

    Returns:
        `1 - distance / longer length` when that is at least `threshold`, else 0; 0 for an empty prediction.
    """
    a, b = reference.strip().lower(), prediction.strip().lower()
    if not a or not b:
        return 0.0
    longest = max(len(a), len(b))
    # the distance is at least the difference in length: long predictions need no table
    if min(len(a), len(b)) / longest < threshold:
        return 0.0
    similarity = 1.0 - edit_distance(a, b) / longest
    return similarity if similarity >= threshold else 0.0


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance with unit costs, on code points."""
    if len(a) < len(b):
        a, b = b, a
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


def _canonical(token: str) -> str:
    token = _NUMBER_WORDS.get(token, token)
    digits = token.replace(",", "")
    if len(digits) > _MAX_DIGITS or not (digits.isascii() and is_number(digits)):
        return token
    return _plain(Decimal(digits))


def _join_scales(words: list[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        if word in _SCALES and joined and is_number(joined[-1]) and len(joined[-1]) <= _MAX_DIGITS:
            joined[-1] = _plain(Decimal(joined[-1]).scaleb(_SCALES[word]))
        else:
            joined.append(word)
    return joined


def _plain(value: Decimal) -> str:
    """A decimal without exponent, trailing zeros or negative zero."""
    if not value:
        return "0"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
