"""Configuration of VRAG-RL: the paper's values, those of the released code, and further options."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.base.section import Section, VariantSection
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.views import CoordsConfig, CropConfig, SearchScope, ShowsImages
from docagent_rl.systems.vrag_rl.rewards import VragReward

Variant = Literal["paper", "released"]

VARIANT_DEFAULTS: Mapping[Variant, Mapping[str, Any]] = {
    "paper": {
        "max_turns": 5,
        "extra_turn": False,
        "display": {"snap": True},
        "coords": {"frame": Frame.ENCODER, "rounding": Rounding.OUTWARD},
        "reward": {"alpha": 0.2, "beta": 0.8, "gamma": 0.0, "gate": False},
    },
    "released": {
        "max_turns": 4,
        "extra_turn": True,
        "display": {"snap": False},
        "coords": {"frame": Frame.DISPLAYED, "rounding": Rounding.TRUNCATE},
        "reward": {"alpha": 0.2, "beta": 0.7, "gamma": 0.1, "gate": True},
    },
}
"""The values of keys that a configuration omits or sets to `null`."""


class VragGrammarConfig(Section):
    """The available actions."""

    region_alias: bool = False
    """Also accept `<region>` for `<bbox>`, as in the paper's Algorithm 1."""
    crop: bool = True
    """True if the agent can zoom; `false` is the ablation without it, in grammar and prompt."""


class VragSearchConfig(Section):
    """The search for pages."""

    scope: SearchScope = SearchScope.CORPUS
    top_k: int = Field(10, ge=1)
    """Number of pages that the retriever ranks for a query."""
    pages_per_search: int = Field(1, ge=1)
    """Maximum number of new pages that a search shows."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pages_per_search > self.top_k:
            raise ValueError(
                f"pages_per_search is {self.pages_per_search}, more than top_k={self.top_k}"
            )
        return self


class FinalTurnConfig(Section):
    """The notice before the last turn."""

    notice: bool = False
    """Ask for the answer in the observation before the last turn."""


class VragConfig(ShowsImages, VariantSection):
    """Configuration of `VragEnv`. Keys that are omitted or `null` take the variant's value."""

    variants = VARIANT_DEFAULTS
    variant: Variant = "paper"
    max_turns: int = Field(ge=1)
    """Maximum number of assistant turns, not counting `extra_turn`."""
    extra_turn: bool
    """After `max_turns` executed turns, request one more in which only an answer counts."""
    final_turn: FinalTurnConfig = FinalTurnConfig()
    grammar: VragGrammarConfig = VragGrammarConfig()
    display: DisplayRule
    coords: CoordsConfig
    crop: CropConfig = CropConfig()
    search: VragSearchConfig = VragSearchConfig()
    reward: VragReward
    allow_empty_gold: bool = False
    """Play questions without gold pages, such as unanswerable ones. Their retrieval term is 0 for
    every trajectory of a group, so that trajectories differ only in outcome and format.
    """

    @property
    def prompt(self) -> str:
        """The packaged prompt for the variant."""
        return f"vrag_rl_{self.variant}"

    @property
    def assistant_turns(self) -> int:
        """The maximum number of assistant turns."""
        return self.max_turns + self.extra_turn

    @property
    def max_images(self) -> int:
        """The maximum number of images; the last turn shows none."""
        return (self.assistant_turns - 1) * self.search.pages_per_search
