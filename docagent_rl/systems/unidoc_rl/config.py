"""Configuration of UniDoc-RL: values of the paper and of the released code, and further options."""

from collections.abc import Mapping
from functools import reduce
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.base.section import Section, VariantSection, filled
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.views import CoordsConfig, SearchScope, ShowsImages
from docagent_rl.envs.views import CropConfig as BoxConfig
from docagent_rl.systems.unidoc_rl.rewards import FormatMode, RoiRule, SelectRule, UniDocReward

Variant = Literal["paper", "released"]

VARIANT_DEFAULTS: Mapping[Variant, Mapping[str, Any]] = {
    "paper": {
        "extra_turn": False,
        "display": {"snap": True},
        "coords": {"frame": Frame.DISPLAYED, "rounding": Rounding.OUTWARD},
        "selection": {"implicit": False, "fallback": False},
        "format": {"mode": FormatMode.STRICT},
        "reward": {
            "gate": False,
            "select_rule": SelectRule.ANY,
            "select_capped": True,
            "roi_rule": RoiRule.IOU,
        },
    },
    "released": {
        "extra_turn": True,
        "display": {"snap": False},
        "coords": {"frame": Frame.DISPLAYED, "rounding": Rounding.TRUNCATE},
        "selection": {"implicit": True, "fallback": True},
        "format": {"mode": FormatMode.TIERED},
        "reward": {
            "gate": True,
            "select_rule": SelectRule.FIRST,
            "select_capped": False,
            "roi_rule": RoiRule.F1,
        },
    },
}
"""The values of keys that a configuration omits or sets to `null`."""

ABLATION_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "select": {"search": {"candidates": 1}, "reward": {"weights": {"select": 0.0}}},
    "crop": {"reward": {"weights": {"roi": 0.0}}},
}
"""Further defaults if `grammar` disables an action: its term is dropped, and the other weights do
not change.
"""


class UniDocGrammarConfig(Section):
    """The available actions."""

    select: bool = True
    """True if the agent selects from candidates; `false` is the ablation in which a search shows
    only the best page that was not shown before.
    """
    crop: bool = True
    """True if regions can be magnified; `false` is the ablation without it, in grammar and prompt.
    """


class UniDocSearchConfig(Section):
    """The search for pages."""

    scope: SearchScope = SearchScope.CORPUS
    top_k: int = Field(10, ge=1)
    """Number of pages that the retriever ranks for a query."""
    candidates: int = Field(3, ge=1)
    """Maximum number of pages that a search shows."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.candidates > self.top_k:
            raise ValueError(f"candidates is {self.candidates}, more than top_k={self.top_k}")
        return self


class SelectionConfig(Section):
    """The rules of selection."""

    implicit: bool
    """The first candidate counts as selected until another one is selected, in rewards and in the
    pages that later searches leave out. Magnifying always needs an explicit selection.
    """
    fallback: bool
    """Select the first candidate if an index is invalid or no candidate has it."""


class UniDocCropConfig(BoxConfig):
    """Settings for the cropping of boxes."""

    max_boxes: int = Field(8, ge=1)
    """Maximum number of boxes of one action."""


class FormatConfig(Section):
    """The definition of well-formedness."""

    mode: FormatMode


class UniDocConfig(ShowsImages, VariantSection):
    """Configuration of `UniDocEnv`. Keys that are omitted or `null` take the variant's value."""

    variants = VARIANT_DEFAULTS
    prompt: ClassVar = "unidoc_rl"
    """The prompt of both variants."""
    variant: Variant = "paper"
    max_turns: int = Field(10, ge=1)
    """Maximum number of assistant turns, not counting `extra_turn`. The paper gives no number."""
    extra_turn: bool
    """After `max_turns` executed turns, request one more in which only an answer counts."""
    image_limit: int = Field(22, ge=0)
    """If the context contains more images than this, only an answer counts, and anything else ends
    the trajectory.
    """
    grammar: UniDocGrammarConfig = UniDocGrammarConfig()
    display: DisplayRule
    coords: CoordsConfig
    search: UniDocSearchConfig = UniDocSearchConfig()
    selection: SelectionConfig
    crop: UniDocCropConfig = UniDocCropConfig()
    format: FormatConfig
    reward: UniDocReward
    allow_empty_gold: bool = False
    """Play questions without gold pages, such as unanswerable ones; their retrieval term is 0."""

    @classmethod
    def fill(cls, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """See `VariantSection.fill`; disabling an action changes further defaults."""
        grammar = given.get("grammar")
        if isinstance(grammar, Mapping):
            off = [
                changes for key, changes in ABLATION_DEFAULTS.items() if grammar.get(key) is False
            ]
            defaults = reduce(filled, off, defaults)
        return super().fill(defaults, given)

    @model_validator(mode="after")
    def _check(self) -> Self:
        weights = self.reward.weights
        if not self.grammar.select and (self.search.candidates > 1 or weights.select):
            raise ValueError(
                "grammar.select=false needs search.candidates=1 and reward.weights.select=0"
            )
        if not self.grammar.crop and weights.roi:
            raise ValueError("grammar.crop=false needs reward.weights.roi=0")
        return self

    @property
    def assistant_turns(self) -> int:
        """The maximum number of assistant turns."""
        return self.max_turns + self.extra_turn

    @property
    def max_images(self) -> int:
        """The maximum number of images; the last turn and turns above `image_limit` show none."""
        most = self.search.candidates
        return min((self.assistant_turns - 1) * most, self.image_limit + most)
