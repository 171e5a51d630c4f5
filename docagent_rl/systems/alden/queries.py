"""The overlap of a query with earlier ones, word by word (ALDEN, section 4.2, Eq. 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.actions.base import Span
from docagent_rl.retrieval.tokens import MARK, spans

Gram = tuple[str, ...]


class Overlap(StrEnum):
    """How two queries are compared."""

    JACCARD = "jaccard"
    """Common n-grams over all n-grams of both; tokens answer for those they share with the nearest earlier
    query (the paper)."""
    CONTAINMENT = "containment"
    """Common n-grams over those of the new query; tokens answer for those of any earlier query (the released
    code)."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as words.

    Args:
        words: `(w,)` folded (`retrieval.tokens.fold`).
        spans: `(w,)` where each stands in the text that the query came from.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """The overlap of a query with earlier ones.

    Args:
        overlap: in `[0, 1]`.
        shares: `(w,)` part of each word in it; they sum to 1, or are all 0 without overlap.
    """

    overlap: float
    shares: tuple[float, ...]


def read_query(text: str, span: Span) -> Query:
    """Return the words of a query.

    Words stand in for the paper's tokens, so that the same query costs the same whatever the tokenizer and
    wherever its spaces and capitals are. They are those of the retrievers: what a search drops makes no query
    new. A query without a word is read mark by mark.
    """
    start, end = span
    found = list(spans(text[start:end])) or list(spans(text[start:end], MARK))
    places = tuple((start + first, start + last) for first, last, _ in found)
    return Query(tuple(word for _, _, word in found), places)


def repetition(query: Sequence[str], earlier: Sequence[Sequence[str]], rule: Overlap, n: int) -> Repetition:
    """Compare a query with the earlier ones.

    n-grams of `n` words are compared first, then shorter ones down to single words, until some are shared;
    without that, short paraphrases would never be noticed. A word's part is the number of shared n-gram
    occurrences that cover it.

    Args:
        query: `(w,)` words of the new query.
        earlier: words of the earlier ones, in any number.
        rule: what to divide by, and whose n-grams count.
        n: longest n-grams; a query of fewer words begins with its own length.

    Returns:
        The largest overlap over the earlier queries, at the first n-gram length that has any.
    """
    for size in range(min(n, len(query)), 0, -1):
        own = _grams(query, size)
        wanted = frozenset(own)
        others = [frozenset(_grams(words, size)) for words in earlier]
        overlaps = [_overlap(wanted, other, rule) for other in others]
        most = max(overlaps, default=0.0)
        if most > 0:
            nearest = others[overlaps.index(most)]
            charged = nearest if rule is Overlap.JACCARD else frozenset().union(*others)
            return Repetition(most, _shares(own, charged, size))
    return Repetition(0.0, (0.0,) * len(query))


def _grams(words: Sequence[str], size: int) -> list[Gram]:
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def _overlap(own: frozenset[Gram], other: frozenset[Gram], rule: Overlap) -> float:
    common = len(own & other)
    return common / len(own | other if rule is Overlap.JACCARD else own)


def _shares(own: Sequence[Gram], charged: frozenset[Gram], size: int) -> tuple[float, ...]:
    counts = [0] * (len(own) + size - 1)
    for at, gram in enumerate(own):
        if gram in charged:
            for word in range(at, at + size):
                counts[word] += 1
    total = sum(counts)
    return tuple(count / total for count in counts)
