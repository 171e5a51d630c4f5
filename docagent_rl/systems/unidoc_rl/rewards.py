"""The reward of UniDoc-RL (arXiv 2604.14967): five terms in one scalar at the end of an trajectory."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from enum import StrEnum

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.rewards.formula import Formula, Gate
from docagent_rl.systems.unidoc_rl.roi import RoiRule, Wanted, roi_f1, roi_iou
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound, SelectRule, search_ndcg, select_reward

TERMS = ("search_ndcg", "select", "roi", "format", "outcome", "total")


class FormatMode(StrEnum):
    """What well-formedness means."""

    STRICT = "strict"
    """1 when every turn was valid and the trajectory ended with an answer, else 0 (the paper's pattern)."""
    GRADED = "graded"
    """The share of valid turns."""
    TIERED = "tiered"
    """1 when a search and a selection were executed, a note was written and an answer given; 0.5 without the
    answer; else 0 (the released code)."""


def format_reward(
    mode: FormatMode, *, turns: int, faults: int, searched: bool, selected: bool, noted: bool, finished: bool
) -> float:
    """Return the format term, in `[0, 1]` (UniDoc-RL, pattern reward; the paper gives no formula).

    It is read off the sample of executed actions and never off text.

    Args:
        mode: what well-formedness means.
        turns: assistant turns.
        faults: turns without an action that could be executed.
        searched: a search was executed.
        selected: a candidate was chosen, or there is no choosing.
        noted: some turn holds a closed, non-empty information block outside of thoughts.
        finished: the trajectory ended with an answer.
    """
    match mode:
        case FormatMode.STRICT:
            return float(finished and not faults)
        case FormatMode.GRADED:
            return (turns - faults) / turns if turns else 0.0
        case FormatMode.TIERED:
            return (1.0 if finished else 0.5) if searched and selected and noted else 0.0


class UniDocWeights(Section):
    """Weights of the reward terms (Eq. 9).

    They need not sum to 1: an ablation drops a term, and no other weighs more for it.
    """

    search_ndcg: float = Field(0.1, ge=0, allow_inf_nan=False)
    select: float = Field(0.1, ge=0, allow_inf_nan=False)
    roi: float = Field(0.1, ge=0, allow_inf_nan=False)
    format: float = Field(0.1, ge=0, allow_inf_nan=False)
    outcome: float = Field(0.6, ge=0, allow_inf_nan=False)


class UniDocReward(Section):
    """What is rewarded."""

    weights: UniDocWeights = UniDocWeights()
    gate: bool
    """Reward nothing when the format term is 0, and ask the judge only when it is not; validation asks."""
    select_rule: SelectRule
    select_capped: bool
    """Leave searches without a gold candidate out of the mean of the selection term where their first
    candidate was chosen. In the mean, as Eq. 7 and the released code have it, they make up for a wrong choice
    elsewhere: three raise a trajectory from 0.9 to 0.975."""
    pseudo_positive: bool = True
    """Where no candidate is gold, the one ranked highest is the right choice; otherwise none is."""
    roi_rule: RoiRule
    iou_threshold: float = Field(0.5, gt=0, le=1)
    """Least IoU of a match, for `roi_rule=f1`."""
    abstention: bool = True
    """Drawing no box is right where there is nothing to magnify; otherwise it scores 0."""
    ndcg_as_published: bool = False
    """Reproduce that the released code's retrieval term is always 0."""

    @property
    def formula(self) -> Formula:
        """How the terms make the total (Eq. 9)."""
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
        """Return all terms by the names in `TERMS`, unweighted, and their weighted total.

        Args:
            rounds: the searches that brought up candidates.
            gold: gold pages.
            wanted: gold boxes by page.
            fmt: the format term.
            outcome: the judge's score in `[0, 1]`, 0 when it was not asked.
            implicit: a search without a choice counts as one for its first candidate.
        """
        values = {
            # the released code compares pages with lists of characters
            "search_ndcg": 0.0 if self.ndcg_as_published else search_ndcg(rounds, gold),
            "select": select_reward(
                rounds,
                gold,
                rule=self.select_rule,
                pseudo_positive=self.pseudo_positive,
                implicit=implicit,
                capped=self.select_capped,
            ),
            "roi": self._roi(rounds, gold, wanted, implicit),
            "format": fmt,
            "outcome": outcome,
        }
        return {**values, "total": self.formula.total(values)}

    def _roi(
        self, rounds: Sequence[SearchRound], gold: Collection[Hashable], wanted: Wanted, implicit: bool
    ) -> float:
        if self.roi_rule is RoiRule.IOU:
            return roi_iou(rounds, wanted, abstention=self.abstention, implicit=implicit, gold=gold)
        threshold = self.iou_threshold
        return roi_f1(rounds, wanted, threshold=threshold, abstention=self.abstention, implicit=implicit)
