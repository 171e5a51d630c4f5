"""Rewards for what a search brought up and for which of its candidates was chosen (UniDoc-RL)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from docagent_rl.actions.base import Box
from docagent_rl.rewards.retrieval import ndcg


@dataclass(frozen=True, slots=True)
class SearchRound:
    """A search that brought up candidates, and what was made of them.

    Args:
        candidates: the pages shown, best first; at least one, each once.
        selected: the candidate that was chosen, if any.
        boxes: what was drawn first, as fractions of the raw page; choosing again keeps it.
        drawn_on: the page that it was drawn on, one of the candidates; by default the chosen page.

    Raises:
        ValueError: there are no candidates, a page is there twice, or the chosen page or the one that was
            drawn on is not among them.
    """

    candidates: tuple[Hashable, ...]
    selected: Hashable | None = None
    boxes: tuple[Box, ...] = ()
    drawn_on: Hashable | None = None

    def __post_init__(self) -> None:
        if not self.candidates or len(set(self.candidates)) != len(self.candidates):
            raise ValueError(f"candidates must be distinct pages, at least one, found {self.candidates}")
        for page in (self.selected, self.drawn_on):
            if page is not None and page not in self.candidates:
                raise ValueError(f"{page} is not one of the candidates {self.candidates}")

    def drawn(self, boxes: tuple[Box, ...]) -> SearchRound:
        """Return the search with boxes on its chosen page: the first ones drawn count (release)."""
        return self if self.boxes else replace(self, boxes=boxes, drawn_on=self.selected)

    def chosen(self, *, implicit: bool) -> Hashable | None:
        """Return the chosen page; with `implicit` the first candidate stands in until one is chosen."""
        return self.candidates[0] if implicit and self.selected is None else self.selected


class SelectRule(StrEnum):
    """Which gold candidate is the right choice."""

    ANY = "any"
    """Any (UniDoc-RL, Eq. 6)."""
    FIRST = "first"
    """Only the one that the retriever ranked highest (the released code)."""


def interleave(rounds: Sequence[SearchRound]) -> list[Hashable]:
    """Return all first candidates in the order of the searches, then all second ones and so on (Eq. 4).

    Each page is there once, where it comes first.
    """
    depth = max((len(item.candidates) for item in rounds), default=0)
    ranked = (item.candidates[rank : rank + 1] for rank in range(depth) for item in rounds)
    return list(dict.fromkeys(chain.from_iterable(ranked)))


def search_ndcg(rounds: Sequence[SearchRound], gold: Collection[Hashable]) -> float:
    """Return the NDCG of the interleaved candidates (Eq. 5), in `[0, 1]`; 0 when no search counts."""
    return ndcg(interleave(rounds), gold)


def select_reward(
    rounds: Sequence[SearchRound],
    gold: Collection[Hashable],
    *,
    rule: SelectRule,
    pseudo_positive: bool = True,
    implicit: bool = False,
    capped: bool = False,
) -> float:
    """Return the mean over the searches of whether the right candidate was chosen (UniDoc-RL, Eq. 6 and 7).

    Searches without a gold candidate are in the mean, so that further searches for anything at all, with
    their first candidate chosen, bring it close to 1 whatever was chosen where it mattered.

    Args:
        rounds: the searches that brought up candidates.
        gold: gold pages.
        rule: which gold candidates are right.
        pseudo_positive: where no candidate is gold, the one ranked highest is right; otherwise none is.
        implicit: a search without a choice counts as one for its first candidate, else as wrong.
        capped: leave searches without a gold candidate out of the mean where their first candidate was
            chosen, so that they never raise it. Where no search has a gold candidate the value is 1 if all
            choices were right, else 0.

    Returns:
        A value in `[0, 1]`; 0 without searches.
    """
    if not rounds:
        return 0.0
    right = [item.chosen(implicit=implicit) in _targets(item, gold, rule, pseudo_positive) for item in rounds]
    if not capped:
        return sum(right) / len(right)
    matters = [not set(gold).isdisjoint(item.candidates) for item in rounds]
    counted = [hit for hit, matter in zip(right, matters, strict=True) if matter or not hit]
    return sum(counted) / len(counted) if counted else 1.0


def _targets(
    item: SearchRound, gold: Collection[Hashable], rule: SelectRule, pseudo_positive: bool
) -> tuple[Hashable, ...]:
    found = tuple(page for page in item.candidates if page in gold)
    if found:
        return found if rule is SelectRule.ANY else found[:1]
    return item.candidates[:1] if pseudo_positive else ()
