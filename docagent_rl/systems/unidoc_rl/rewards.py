"""The reward of UniDoc-RL (arXiv 2604.14967): five terms in one scalar per trajectory.

All boxes are `(left, top, right, bottom)` as fractions of the raw page. `wanted` maps a page to its
gold boxes; pages without an entry have none.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from pydantic import Field

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import iou
from docagent_rl.base.section import Section
from docagent_rl.rewards.formula import Formula, Gate
from docagent_rl.rewards.retrieval import ndcg


@dataclass(frozen=True, slots=True)
class SearchRound:
    """A search that returned candidates, the selection among them, and the boxes drawn.

    Args:
        candidates: the distinct pages shown, best first; at least one.
        selected: the candidate that was selected, if any.
        boxes: the boxes that were drawn first; a new selection keeps them.
        drawn_on: the candidate on which they were drawn; the selected page by default.
    """

    candidates: tuple[Hashable, ...]
    selected: Hashable | None = None
    boxes: tuple[Box, ...] = ()
    drawn_on: Hashable | None = None

    def drawn(self, boxes: tuple[Box, ...]) -> SearchRound:
        """Return the search with boxes on its selected page; only the first boxes count
        (release).
        """
        return self if self.boxes else replace(self, boxes=boxes, drawn_on=self.selected)

    def chosen(self, *, implicit: bool) -> Hashable | None:
        """Return the selected page; with `implicit`, the first candidate if none was selected."""
        return self.candidates[0] if implicit and self.selected is None else self.selected


class SelectRule(StrEnum):
    """The gold candidates that are right selections."""

    ANY = "any"
    """Any gold candidate (UniDoc-RL, Eq. 6)."""
    FIRST = "first"
    """Only the one that the retriever ranked highest (the released code)."""


def interleave(rounds: Sequence[SearchRound]) -> list[Hashable]:
    """Return the first candidates of all searches, then the second ones, and so on (Eq. 4).

    A page that occurs several times is kept only at its first position.
    """
    depth = max((len(item.candidates) for item in rounds), default=0)
    ranked = (item.candidates[rank : rank + 1] for rank in range(depth) for item in rounds)
    return list(dict.fromkeys(chain.from_iterable(ranked)))


Wanted = Mapping[Hashable, Sequence[Box]]


class RoiRule(StrEnum):
    """The way in which boxes are scored."""

    IOU = "iou"
    """The best IoU with a gold box, averaged over the boxes drawn (the paper)."""
    F1 = "f1"
    """The F1 of matched boxes, averaged over the searches (the released code)."""


def matches(gold: Sequence[Box], drawn: Sequence[Box], threshold: float) -> int:
    """Return the number of one-to-one matches, made greedily by descending IoU.

    Ties are broken by the order of the gold boxes, then by that of the drawn ones.
    """
    pairs = [(-iou(g, d), i, j) for i, g in enumerate(gold) for j, d in enumerate(drawn)]
    taken_gold: set[int] = set()
    taken_drawn: set[int] = set()
    for value, i, j in sorted(pairs):
        if -value < threshold:
            break
        if i not in taken_gold and j not in taken_drawn:
            taken_gold.add(i)
            taken_drawn.add(j)
    return len(taken_gold)


TERMS = ("search_ndcg", "select", "roi", "format", "outcome", "total")


class FormatMode(StrEnum):
    """The definition of well-formedness."""

    STRICT = "strict"
    """1 if every turn was valid and the trajectory ended with an answer, else 0 (the paper's
    pattern).
    """
    TIERED = "tiered"
    """1 if a search and a selection were executed, a note was written and an answer was given; 0.5
    without the answer; otherwise 0 (the released code).
    """


def pattern_reward(
    mode: FormatMode, *, faults: int, searched: bool, selected: bool, noted: bool, finished: bool
) -> float:
    """Return the format term, in `[0, 1]` (UniDoc-RL, pattern reward; the paper gives no formula).

    It depends on executed actions, never on text.

    Args:
        mode: the definition of well-formedness.
        faults: number of turns without an executable action.
        searched: whether a search was executed.
        selected: whether a candidate was selected, or selection is disabled.
        noted: whether some turn contains a closed, non-empty information block outside thoughts.
        finished: whether the trajectory ended with an answer.
    """
    if mode is FormatMode.STRICT:
        return float(finished and not faults)
    return (1.0 if finished else 0.5) if searched and selected and noted else 0.0


class UniDocWeights(Section):
    """Weights of the reward terms (Eq. 9).

    They need not sum to 1: an ablation drops a term without changing the other weights.
    """

    search_ndcg: float = Field(0.1, ge=0, allow_inf_nan=False)
    select: float = Field(0.1, ge=0, allow_inf_nan=False)
    roi: float = Field(0.1, ge=0, allow_inf_nan=False)
    format: float = Field(0.1, ge=0, allow_inf_nan=False)
    outcome: float = Field(0.6, ge=0, allow_inf_nan=False)


class UniDocReward(Section):
    """Weights and rules of the reward."""

    weights: UniDocWeights = UniDocWeights()
    gate: bool
    """Reward nothing if the format term is 0, and ask the judge only if it is not, except in
    validation.
    """
    select_rule: SelectRule
    select_capped: bool
    """Exclude searches without a gold candidate from the mean of the selection term if their first
    candidate was selected. If they are included, as in Eq. 7 and the released code, they compensate
    for a wrong selection elsewhere: three of them raise a trajectory from 0.9 to 0.975.
    """
    pseudo_positive: bool = True
    """If no candidate is gold, count the highest-ranked one as the right selection; otherwise no
    selection is right.
    """
    roi_rule: RoiRule
    iou_threshold: float = Field(0.5, gt=0, le=1)
    """Minimum IoU of a match, for `roi_rule=f1`."""
    abstention: bool = True
    """Count drawing no box as right if there is nothing to magnify; otherwise it scores 0."""
    ndcg_as_published: bool = False
    """Reproduce the released code, whose retrieval term is always 0."""

    @property
    def formula(self) -> Formula:
        """The total of the terms (Eq. 9)."""
        gate = Gate("format", above=0.0, otherwise=0.0) if self.gate else None
        return Formula(self.weights.model_dump(), gate)

    def terms(
        self,
        rounds: Sequence[SearchRound],
        gold: Collection[Hashable],
        wanted: Wanted,
        *,
        fmt: float,
        outcome: float,
        implicit: bool,
    ) -> dict[str, float]:
        """Return the unweighted terms by name, and their weighted total (`TERMS`).

        `outcome` is the judge's score in `[0, 1]`, or 0 if the judge was not asked. With
        `implicit`, a search without a selection counts as if its first candidate were selected.
        """
        chosen = [item.chosen(implicit=implicit) for item in rounds]
        by_iou = self.roi_rule is RoiRule.IOU
        values = {
            # the released code compares pages with lists of characters
            "search_ndcg": 0.0 if self.ndcg_as_published else ndcg(interleave(rounds), gold),
            "select": self._select(rounds, chosen, gold),
            "roi": self._iou(rounds, chosen, wanted, gold)
            if by_iou
            else self._f1(rounds, chosen, wanted),
            "format": fmt,
            "outcome": outcome,
        }
        return {**values, "total": self.formula.total(values)}

    def _select(
        self,
        rounds: Sequence[SearchRound],
        chosen: Sequence[Hashable | None],
        gold: Collection[Hashable],
    ) -> float:
        """Return the share of searches in which the right candidate was selected (Eq. 6 and 7).

        Searches without a gold candidate are included, so additional searches for anything, with
        their first candidate selected, bring the share close to 1 whatever was selected where it
        mattered. `select_capped` excludes them; if no search has a gold candidate, the value is
        then 1 if all selections were right, else 0.
        """
        if not rounds:
            return 0.0
        right = [
            page in self._targets(item, gold) for page, item in zip(chosen, rounds, strict=True)
        ]
        if not self.select_capped:
            return sum(right) / len(right)
        matters = [not set(gold).isdisjoint(item.candidates) for item in rounds]
        counted = [hit for hit, matter in zip(right, matters, strict=True) if matter or not hit]
        return sum(counted) / len(counted) if counted else 1.0

    def _targets(self, item: SearchRound, gold: Collection[Hashable]) -> tuple[Hashable, ...]:
        found = tuple(page for page in item.candidates if page in gold)
        if found:
            return found if self.select_rule is SelectRule.ANY else found[:1]
        return item.candidates[:1] if self.pseudo_positive else ()

    def _iou(
        self,
        rounds: Sequence[SearchRound],
        chosen: Sequence[Hashable | None],
        wanted: Wanted,
        gold: Collection[Hashable],
    ) -> float:
        """Return the best IoU with a gold box of the page, averaged over the boxes (section 3.3).

        The paper does not define the value without any box: here it is 1 if pages were selected and
        none of them has gold boxes, else 0. It is also 0 if a search returned a gold page but was
        not followed by a selection; otherwise a selection after any other search would compensate.
        """
        best = []
        for page, item in zip(chosen, rounds, strict=True):
            drawn_on = page if item.drawn_on is None else item.drawn_on
            gold_boxes = wanted.get(drawn_on, ())
            for box in item.boxes:
                best.append(max((iou(box, other) for other in gold_boxes), default=0.0))
        if best:
            return sum(best) / len(best)
        missed = (item for page, item in zip(chosen, rounds, strict=True) if page is None)
        if any(set(item.candidates) & set(gold) for item in missed):
            return 0.0
        pages = [page for page in chosen if page is not None]
        return float(
            self.abstention and bool(pages) and not any(wanted.get(page) for page in pages)
        )

    def _f1(
        self, rounds: Sequence[SearchRound], chosen: Sequence[Hashable | None], wanted: Wanted
    ) -> float:
        """Return the F1 of the boxes on the page selected last, averaged over the searches.

        This is the rule of the released code, with one-to-one matches: 1 if there is nothing to
        draw and nothing was drawn; 0 if only one of the two holds, nothing was selected, or there
        is no search; otherwise `2 * matches / (gold + drawn)`.
        """
        scores = []
        for page, item in zip(chosen, rounds, strict=True):
            gold = wanted.get(page, ())
            if gold or item.boxes:
                hits = matches(gold, item.boxes, self.iou_threshold)
                scores.append(2 * hits / (len(gold) + len(item.boxes)))
            else:
                scores.append(float(self.abstention and page is not None))
        return sum(scores) / len(scores) if scores else 0.0
