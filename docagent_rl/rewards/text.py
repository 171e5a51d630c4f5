"""Comparison of short texts: SQuAD normalisation, edit distance, ANLS and token recall."""

import re
import string
from collections import Counter

from rapidfuzz.distance import Levenshtein

NOT_ANSWERABLE = "Not answerable"
"""The reference, and the right answer, for a question that its document does not answer."""
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_normalise(text: str) -> str:
    """Apply SQuAD's normalisation: lower-case, drop ASCII punctuation and articles, collapse
    spaces.

    An article is also recognised next to punctuation that is kept, such as a dash or a curly quote.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(reference: str, prediction: str) -> float:
    """Return 1 if both texts are equal after `squad_normalise` and not empty, else 0."""
    answer = squad_normalise(prediction)
    return float(bool(answer) and answer == squad_normalise(reference))


def token_recall(reference: str, prediction: str) -> float:
    """Return the share of reference tokens (with multiplicity) in the prediction, in `[0, 1]`."""
    wanted = Counter(squad_normalise(reference).split())
    found = wanted & Counter(squad_normalise(prediction).split())
    return found.total() / wanted.total() if wanted else 0.0


def anls(reference: str, prediction: str, threshold: float = 0.5) -> float:
    """Return the normalised Levenshtein similarity (ANLS) of one pair of stripped, lower-case
    texts.

    This is what MP-DocVQA computes for one gold answer, without its rules for questions and for the
    prediction `none` (`docagent_rl.lab.eval.metrics.answers`).

    Returns:
        `1 - distance / longer length` if that is at least `threshold`, else 0; 0 for an empty
        prediction.
    """
    a = reference.strip().lower()
    b = prediction.strip().lower()
    longest = max(len(a), len(b))
    if not longest:
        return 0.0
    similarity = 1.0 - edit_distance(a, b) / longest
    return similarity if similarity >= threshold else 0.0


def edit_distance(a: str, b: str) -> int:
    """Return the Levenshtein distance with unit costs, counted in code points."""
    return Levenshtein.distance(a, b)
