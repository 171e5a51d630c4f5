"""The turn rewards of ALDEN (arXiv 2510.25668, section 4.2, Eq. 2 and 3) and of its released code."""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import StrEnum

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.rewards.formula import Formula, Gate

TERMS = (
    "format",
    "search",
    "fetch",
    "fetch_repetition",
    "fetch_failed",
    "answer",
    "wrong_refusal",
    "missed_refusal",
    "query_repetition",
    "total",
)
"""The terms of a turn by name; `AldenReward.formula` says what each is."""


class SearchCredit(StrEnum):
    """The reward of a search."""

    PRECISION = "precision"
    """The share of gold pages among those returned, on every repeat again (the paper)."""
    NEW_GOLD = "new_gold"
    """The number of gold pages that were not shown before (the released code)."""


class FetchCredit(StrEnum):
    """The reward of a fetch."""

    PROXIMITY = "proximity"
    """`exp(-mean distance)` to the gold pages (the paper)."""
    GOLD_OR_NEAR = "gold_or_near"
    """1 for a gold page, else `0.3 * exp(-mean distance / 2)` (the released code)."""


class DroppedCall(StrEnum):
    """What becomes of a call whose pages did not fit, so that it ended the trajectory."""

    FAILED = "failed"
    """It found nothing: no credit for a search, the penalty of a failed fetch."""
    FORMAT = "format"
    """It was the last turn and no answer, so it is malformed (the released code)."""


class AldenReward(Section):
    """Weights and rules of the turn reward `r = f + u` (section 4.2).

    A failed fetch costs 0.5 as released; the paper is silent.
    """

    alpha: float = Field(5.0, ge=0, allow_inf_nan=False)
    """Weight of the answer score."""
    search: SearchCredit
    fetch: FetchCredit
    eta_fetch: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of a fetch that repeats a page, in the form it was shown in."""
    failed_fetch: float = Field(0.5, ge=0, allow_inf_nan=False)
    """Penalty of a fetch that led to no page."""
    wrong_refusal: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of refusing a question that has an answer; 0 leaves it to the answer score."""
    missed_refusal: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of answering a question that has none; 0 leaves it to the answer score."""
    unanswerable: bool
    """Reward and charge calls for questions without an answer; their set of gold pages is empty."""
    calls: bool = True
    """Reward and charge calls at all; without it, format and answer remain (outcome reward only)."""
    dropped_call: DroppedCall
    """The reward of a call whose pages did not fit, so that it ended the trajectory."""

    @property
    def formula(self) -> Formula:
        """How the terms of a turn make its reward: `f + u`, and -1 for a malformed turn whatever its utility.

        `format` is 0 or -1; `search`, `fetch` and `answer` are credits; `fetch_repetition`, `fetch_failed`,
        `wrong_refusal` and `missed_refusal` are 0 or 1. The query term is charged on its tokens instead.
        """
        weights = {
            "format": 1.0,
            "search": 1.0 * self.calls,
            "fetch": 1.0 * self.calls,
            "fetch_repetition": -self.eta_fetch * self.calls,
            "fetch_failed": -self.failed_fetch * self.calls,
            "answer": self.alpha,
            "wrong_refusal": -self.wrong_refusal,
            "missed_refusal": -self.missed_refusal,
        }
        return Formula(weights, Gate("format", above=-1.0, otherwise=-1.0), turnwise=True)

    def search_credit(self, found: Collection[int], gold: Collection[int], seen: Collection[int]) -> float:
        """Return the credit of a search.

        Args:
            found: pages that it showed, in either form.
            gold: gold pages.
            seen: pages that were shown before, in either form.
        """
        if self.search is SearchCredit.PRECISION:
            return precision(found, gold)
        return float(len(set(found) & set(gold) - set(seen)))

    def fetch_credit(self, page: int, gold: Collection[int]) -> float:
        """Return the credit of fetching a page, in `[0, 1]`; 0 when nothing is gold."""
        if self.fetch is FetchCredit.PROXIMITY:
            return proximity(page, gold)
        if page in gold:
            return 1.0
        return 0.3 * math.exp(-0.5 * mean_distance(page, gold)) if gold else 0.0

    def answer_terms(
        self, score: float, *, refused: bool, answerable: bool, refusal_is_right: bool
    ) -> dict[str, float]:
        """Return the terms of a well-formed answer.

        Args:
            score: likeness to the references, in `[0, 1]`.
            refused: the answer is the refusal sentence.
            answerable: the question has an answer.
            refusal_is_right: some reference is the refusal sentence. Where references disagree, the
                score decides.
        """
        if self.wrong_refusal and answerable and refused and not refusal_is_right:
            return {"wrong_refusal": 1.0}
        if self.missed_refusal and not answerable and not refused:
            return {"missed_refusal": 1.0}
        return {"answer": score}


def precision(found: Collection[int], gold: Collection[int]) -> float:
    """Return `|C ∩ G| / |C|` (Eq. 3, search); 0 when nothing was found. Both are read as sets."""
    pages = set(found)
    return len(pages & set(gold)) / len(pages) if pages else 0.0


def proximity(page: int, gold: Collection[int]) -> float:
    """Return `exp(-mean distance)` (Eq. 3, fetch), in `[0, 1]`; 0 when nothing is gold."""
    return math.exp(-mean_distance(page, gold)) if gold else 0.0


def mean_distance(page: int, gold: Collection[int]) -> float:
    """Return the mean number of pages between a page and the gold pages, of which there must be some."""
    pages = set(gold)
    return sum(abs(page - other) for other in pages) / len(pages)
