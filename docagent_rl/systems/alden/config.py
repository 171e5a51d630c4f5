"""Configuration of ALDEN: the paper's values, those of the released code, and further options."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section, VariantSection
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.text_ranking import TextRanking
from docagent_rl.envs.views import ShowsImages
from docagent_rl.rewards.formula import Formula
from docagent_rl.systems.alden.actions import FetchSyntax, Modality
from docagent_rl.systems.alden.rewards import (
    TERMS,
    AldenAnswerRule,
    AldenReward,
    AnswerMetric,
    DroppedCall,
    FetchCredit,
    Overlap,
    SearchCredit,
)

Variant = Literal["paper", "released"]


class OnFull(StrEnum):
    """The response to a request for an image for which there is no room."""

    NOTICE = "notice"
    """A notice is shown instead, and the trajectory continues."""
    END = "end"
    """The trajectory ends."""


VARIANT_DEFAULTS: Mapping[Variant, Mapping[str, Any]] = {
    "paper": {
        "fetch_syntax": FetchSyntax.PLAIN,
        "display": {"min_pixels": 261_070, "max_pixels": 2_508_800, "snap": True},
        "search": {"top_k": 1, "pages_per_search": 1},
        "image_budget": {"on_full": OnFull.NOTICE},
        "cut_fetched_text": True,
        "remember_malformed": True,
        "answer_metric": AnswerMetric.CHAR_F1,
        "numeric_metric": AnswerMetric.CHAR_F1,
        "polar_exact": False,
        "reward": {
            "search": SearchCredit.PRECISION,
            "fetch": FetchCredit.PROXIMITY,
            "eta_fetch": 0.5,
            "wrong_refusal": 0.0,
            "missed_refusal": 0.0,
            "unanswerable": True,
            "dropped_call": DroppedCall.FAILED,
        },
        "query_repetition": {"enabled": True, "eta": 1.0, "overlap": Overlap.JACCARD, "n": 1},
    },
    "released": {
        "fetch_syntax": FetchSyntax.ORDINAL,
        "display": {"min_pixels": 261_070, "max_pixels": 862_400, "snap": False},
        "search": {"top_k": 5, "pages_per_search": 3},
        "image_budget": {"on_full": OnFull.END},
        "cut_fetched_text": False,
        "remember_malformed": False,
        "answer_metric": AnswerMetric.WORD_F1,
        "numeric_metric": AnswerMetric.WORD_F1,
        "polar_exact": True,
        "reward": {
            "search": SearchCredit.NEW_GOLD,
            "fetch": FetchCredit.GOLD_OR_NEAR,
            "eta_fetch": 1.0,
            "wrong_refusal": 5.0,
            "missed_refusal": 2.0,
            "unanswerable": False,
            "dropped_call": DroppedCall.FORMAT,
        },
        "query_repetition": {"enabled": False, "eta": 0.3, "overlap": Overlap.CONTAINMENT, "n": 3},
    },
}
"""The values of keys that a configuration omits or sets to `null`."""


class AldenSearchConfig(Section):
    """The search for pages, always in the question's own document."""

    top_k: int = Field(ge=1)
    """Number of pages that a retriever ranks for a query."""
    pages_per_search: int = Field(ge=1)
    """Maximum number of pages that a search shows, in each form (K)."""
    text_ranking: TextRanking = TextRanking.OWN
    """The source of the hybrid's texts."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pages_per_search > self.top_k:
            raise ValueError(
                f"pages_per_search is {self.pages_per_search}, more than top_k={self.top_k}"
            )
        return self


class ImageBudget(Section):
    """The limit on the images of a trajectory."""

    images: int = Field(15, ge=0)
    """Maximum number of images."""
    on_full: OnFull


class QueryRepetitionConfig(Section):
    """The penalty on words of a query that repeat earlier queries (Eq. 4 and 5)."""

    enabled: bool
    """Apply the penalty."""
    eta: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of a query that repeats an earlier one in full."""
    overlap: Overlap
    n: int = Field(ge=1)
    """Length of the longest n-grams that are compared, in words. With 1 a query with the same words
    in another order counts as a repetition, as BM25 treats it. The released code uses 3, which
    distinguishes such queries; the paper gives no number.
    """


class AldenConfig(ShowsImages, VariantSection):
    """Configuration of `AldenEnv`. Keys that are omitted or `null` take the variant's value."""

    variants = VARIANT_DEFAULTS
    variant: Variant = "paper"
    modality: Modality = Modality.VISUAL
    max_turns: int = Field(6, ge=1)
    """Maximum number of assistant turns; the last one can only answer (T)."""
    fetch: bool = True
    """True if pages can be fetched; `false` is the ablation without it, in grammar and prompt."""
    fetch_syntax: FetchSyntax
    final_turn_notice: bool = False
    """Ask for the answer in the observation before the last turn."""
    ocr_tokens: int = Field(1024, ge=1)
    """Maximum length of a page's text in tokens, as `state.cut_text` counts them."""
    cut_fetched_text: bool
    """Truncate the text of fetched pages to `ocr_tokens` too."""
    display: DisplayRule
    search: AldenSearchConfig
    image_budget: ImageBudget
    remember_malformed: bool
    """Pages that are shown after a malformed turn count as seen in later rewards."""
    answer_metric: AnswerMetric
    numeric_metric: AnswerMetric
    """The metric for references with a digit. The paper's `char_f1` does not distinguish `42` from
    `24`.
    """
    polar_exact: bool
    """The answers yes, no and noanswer must match exactly."""
    reward: AldenReward
    query_repetition: QueryRepetitionConfig
    allow_empty_gold: bool = False
    """Play answerable questions without gold pages, whose calls are then not rewarded.

    Unanswerable questions have no gold pages and are always played.
    """

    @property
    def two_rankings(self) -> bool:
        """Return whether images and texts are ranked by different retrievers."""
        return self.hybrid and self.search.text_ranking is TextRanking.OWN

    @property
    def hybrid(self) -> bool:
        """Return whether page texts are shown in addition to images."""
        return self.modality is Modality.HYBRID

    @property
    def terms(self) -> tuple[str, ...]:
        """The reward terms of this configuration, without those that are always 0."""
        absent = {
            "fetch": not self.fetch,
            "fetch_repetition": not self.fetch,
            "fetch_failed": not self.fetch,
            "wrong_refusal": not self.reward.wrong_refusal,
            "missed_refusal": not self.reward.missed_refusal,
            "query_repetition": not self.query_repetition.enabled,
        }
        return tuple(name for name in TERMS if not absent.get(name, False))

    @property
    def formula(self) -> Formula:
        """The formula of the reward."""
        whole = self.reward.formula
        weights = {name: weight for name, weight in whole.weights.items() if name in self.terms}
        charged = (
            {"query_repetition": -self.query_repetition.eta}
            if self.query_repetition.enabled
            else {}
        )
        return replace(whole, weights=weights, tokens=charged)

    @property
    def prompt(self) -> str:
        """The packaged prompt for the modality."""
        return f"alden_{self.modality.value}"

    @property
    def assistant_turns(self) -> int:
        """The maximum number of assistant turns."""
        return self.max_turns

    @property
    def max_images(self) -> int:
        """The maximum number of images; the last turn shows none."""
        return min(self.image_budget.images, (self.max_turns - 1) * self.search.pages_per_search)

    def answer_rule(self) -> AldenAnswerRule:
        """Return the rule by which answers are scored."""
        return AldenAnswerRule(self.answer_metric, self.numeric_metric, self.polar_exact)
