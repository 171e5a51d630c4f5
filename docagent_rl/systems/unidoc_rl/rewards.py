"""The reward of UniDoc-RL (arXiv 2604.14967): five terms in one scalar at the end of an episode."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict, astuple, dataclass
from enum import StrEnum

from docagent_rl.rewards.formula import Formula, Gate
from docagent_rl.systems.unidoc_rl.roi import RoiRule, Wanted, roi_f1, roi_iou
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound, SelectRule, search_ndcg, select_reward

TERMS = ("search_ndcg", "select", "roi", "format", "outcome", "total")


class FormatMode(StrEnum):
    """What well-formedness means."""

    STRICT = "strict"
    """1 when every turn was valid and the episode ended with an answer, else 0 (the paper's pattern)."""
    GRADED = "graded"
    """The share of valid turns."""
    TIERED = "tiered"
    """1 when a search and a selection were executed, a note was written and an answer given; 0.5 without the
    answer; else 0 (the released code)."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """How an episode was played, read off the record of executed actions and never off text.

    Args:
        turns: assistant turns.
        faults: turns without an action that could be executed.
        searched: a search was executed.
        selected: a candidate was chosen, or there is no choosing.
        noted: some turn holds a closed, non-empty information block outside of thoughts.
        finished: the episode ended with an answer.
    """

    turns: int
    faults: int
    searched: bool
    selected: bool
    noted: bool
    finished: bool


def format_reward(conduct: Conduct, mode: FormatMode) -> float:
    """The format term, in `[0, 1]` (UniDoc-RL, pattern reward; the paper gives no formula)."""
    match mode:
        case FormatMode.STRICT:
            return float(conduct.finished and not conduct.faults)
        case FormatMode.GRADED:
            return (conduct.turns - conduct.faults) / conduct.turns if conduct.turns else 0.0
        case FormatMode.TIERED:
            if not (conduct.searched and conduct.selected and conduct.noted):
                return 0.0
            return 1.0 if conduct.finished else 0.5


@dataclass(frozen=True, slots=True)
class UniDocWeights:
    """Weights of the terms (UniDoc-RL, Eq. 9 and its table of hyperparameters).

    They need not sum to 1: an ablation drops a term without a greater weight of the others.

    Raises:
        ValueError: a weight is negative or not finite.
    """

    search_ndcg: float = 0.1
    select: float = 0.1
    roi: float = 0.1
    format: float = 0.1
    outcome: float = 0.6

    def __post_init__(self) -> None:
        if not all(weight >= 0 and math.isfinite(weight) for weight in astuple(self)):
            raise ValueError(f"weights must be finite and not negative, found {astuple(self)}")


@dataclass(frozen=True, slots=True)
class UniDocReward:
    """The terms of an episode and their sum.

    Args:
        weights: of the terms.
        gate: reward nothing at all when the format term is 0, and ask the judge only when it is not.
        select_rule: which candidates are the right choice.
        pseudo_positive: where no candidate is gold, the one ranked highest is the right choice.
        select_capped: searches without a gold candidate never raise the selection term (see `select_reward`).
        roi_rule: how boxes are scored.
        iou_threshold: least IoU of a match, for `RoiRule.F1`.
        abstention: drawing nothing where there is nothing to draw is right.
        implicit: a search without a choice counts as one for its first candidate.
        format_mode: what well-formedness means.
        ndcg_as_published: the released code compares pages with lists of characters, so that its retrieval
            term is always 0; do the same.
    """

    weights: UniDocWeights
    gate: bool
    select_rule: SelectRule
    pseudo_positive: bool
    roi_rule: RoiRule
    iou_threshold: float
    abstention: bool
    implicit: bool
    format_mode: FormatMode
    ndcg_as_published: bool = False
    select_capped: bool = False

    @property
    def formula(self) -> Formula:
        """How the terms make the total."""
        return Formula(asdict(self.weights), Gate("format", above=0.0, otherwise=0.0) if self.gate else None)

    def needs_outcome(self, fmt: float) -> bool:
        """Whether the outcome can change the total, so that the judge has to be asked."""
        return self.formula.opens({"format": fmt})

    def terms(
        self,
        rounds: Sequence[SearchRound],
        gold: Collection[Hashable],
        wanted: Wanted,
        *,
        fmt: float,
        outcome: float,
    ) -> dict[str, float]:
        """All terms by the names in `TERMS`, unweighted, and their weighted total.

        Args:
            rounds: the searches that brought up candidates.
            gold: gold pages.
            wanted: gold boxes by page.
            fmt: the format term.
            outcome: the judge's score in `[0, 1]`, 0 when it was not asked.
        """
        values = {
            "search_ndcg": 0.0 if self.ndcg_as_published else search_ndcg(rounds, gold),
            "select": select_reward(
                rounds,
                gold,
                rule=self.select_rule,
                pseudo_positive=self.pseudo_positive,
                implicit=self.implicit,
                capped=self.select_capped,
            ),
            "roi": self._roi(rounds, gold, wanted),
            "format": fmt,
            "outcome": outcome,
        }
        return {**values, "total": self.formula.total(values)}

    def _roi(self, rounds: Sequence[SearchRound], gold: Collection[Hashable], wanted: Wanted) -> float:
        if self.roi_rule is RoiRule.IOU:
            return roi_iou(rounds, wanted, abstention=self.abstention, implicit=self.implicit, gold=gold)
        return roi_f1(
            rounds,
            wanted,
            threshold=self.iou_threshold,
            abstention=self.abstention,
            implicit=self.implicit,
        )
