"""Configuration of Doc-V*: what the paper says, where it is silent, and what may be changed.

No code was released, so there is one variant. Keys outside `VARIANT_DEFAULTS` are choices of this
package where the paper is silent or contradicts itself.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section, VariantSection
from docagent_rl.envs.views import ShowsImages
from docagent_rl.rewards.answer_kinds import IdentifierRule
from docagent_rl.rewards.answer_rule import ABSTENTIONS, AnswerRule
from docagent_rl.systems.doc_v_star.overview import OverviewPlan, OverviewStyle, PageBox
from docagent_rl.systems.doc_v_star.rewards import DocVStarReward

Variant = Literal["paper"]

VARIANT_DEFAULTS: Mapping[Variant, Mapping[str, Any]] = {
    "paper": {
        "max_turns": 8,
        "overview": {"cell_px": 256},
        "display": {"long_side": 1024, "short_side": 768},
        "retrieval": {"pages_divisor": 10, "max_pages": 4},
        "answer": {"threshold": 0.5},
        "reward": {"answer": 0.6, "evidence": 0.3, "format": 0.1, "beta2": 2.0},
    },
}
"""The values of keys that a configuration leaves out or gives as `null`."""


class OverviewConfig(Section):
    """The thumbnails that a trajectory begins with."""

    enabled: bool = True
    """`false` is the ablation without them, in prompt and first observation."""
    cell_px: int = Field(ge=1)
    """Side of the square for a thumbnail."""
    header_px: int = Field(24, ge=0)
    """Height of the band with the page number over a thumbnail; 0 prints none. 24 and 256 make ten
    rows of visual tokens.
    """
    font_px: int = Field(18, ge=1)
    """Size of the page number."""
    pages_per_sheet: int = Field(36, ge=1)
    """Pages of one image at most."""
    fit_cells_px: tuple[Annotated[int, Field(ge=1)], ...] = (228, 200, 172, 144, 116, 88)
    """Cells of an overview that does not fit the prompt (`docagent.rollout.prompt_tokens`), tried
    in turn, those below `cell_px`; a sheet of the same area then holds more of them. Where the
    smallest do not fit, the overview shows one page in two, or in three and so on, as large as
    fits, and says so. With the header each of these makes whole rows of visual tokens; the smallest
    shows 500 pages in 8,192 tokens.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(after >= before for before, after in itertools.pairwise(self.fit_cells_px)):
            raise ValueError(f"fit_cells_px must fall, found {self.fit_cells_px}")
        if self.header_px and self.font_px > self.header_px:
            raise ValueError(f"font_px={self.font_px} does not fit into header_px={self.header_px}")
        return self

    @property
    def styles(self) -> tuple[OverviewStyle, ...]:
        """All looks a sheet may have, the largest cells first."""
        full = OverviewStyle(self.cell_px, self.header_px, self.font_px, self.pages_per_sheet)
        return (full, *(full.smaller(cell) for cell in self.fit_cells_px if cell < self.cell_px))

    def plans(self, num_pages: int) -> Iterator[OverviewPlan]:
        """Yield what may be shown of a document, best first: the first that fits the prompt is
        shown.
        """
        for stride in range(1, num_pages + 1):
            for style in self.styles:
                yield OverviewPlan(num_pages, style, self.cell_px, stride)


class RetrievalConfig(Section):
    """Retrieving pages by a query."""

    enabled: bool = True
    """`false` is the ablation without it, in grammar and prompt."""
    pages: int | None = Field(None, ge=1)
    """New pages a retrieval shows, whatever the document; `null` adapts to its length."""
    pages_divisor: int = Field(ge=1)
    """Otherwise one page for every so many pages of the document, rounded up,"""
    max_pages: int = Field(ge=1)
    """but no more than this."""
    query_chars: int = Field(512, ge=1)
    """Longer queries are cut."""

    def k(self, num_pages: int) -> int:
        """Return the new pages a retrieval shows at most: `min(ceil(N / 10), 4)` (section 4.1)."""
        return self.pages or min(-(-num_pages // self.pages_divisor), self.max_pages)


class FetchConfig(Section):
    """Fetching pages by their numbers."""

    enabled: bool = True
    """`false` is the ablation without it, in grammar and prompt."""
    max_pages: int = Field(4, ge=1)
    """Pages of one call; those beyond are not served, which is no fault. The paper has no limit."""


class ThoughtConfig(Section):
    """The blocks of thoughts."""

    analysis: bool = True
    """The thoughts of later turns begin with an analysis; `false` is the ablation without it."""


class MemoryConfig(Section):
    """The summaries that are repeated to the policy."""

    enabled: bool = True
    """`false` is the ablation without them."""
    summary_chars: int = Field(1500, ge=2)
    """A longer summary is cut where it is repeated, and only there."""


class AnswerRewardConfig(Section):
    """The scoring of answers."""

    threshold: float = Field(ge=0, le=1)
    """Similarities of free text below it count as 0."""
    identifier_rule: IdentifierRule = IdentifierRule.ALL
    """The answers that must match exactly."""
    abstentions: tuple[Annotated[str, Field(pattern=r"\w")], ...] = Field(ABSTENTIONS, min_length=1)
    """Texts that decline to answer; the prompt asks for the first."""

    def rule(self) -> AnswerRule:
        """Return the scoring function."""
        return AnswerRule(self.threshold, self.identifier_rule, self.abstentions)


class DocVStarConfig(ShowsImages, VariantSection):
    """Configuration of `DocVStarEnv`. Keys that are left out or `null` take the value of the
    variant.
    """

    variants = VARIANT_DEFAULTS
    prompt: ClassVar = "doc_v_star_paper"
    variant: Variant = "paper"
    max_turns: int = Field(ge=1)
    """Assistant turns, the answer included (T)."""
    final_turn_notice: bool = True
    """Say in the observation before the last turn that it must answer."""
    overview: OverviewConfig
    display: PageBox
    """The size of pages at reading resolution."""
    retrieval: RetrievalConfig
    fetch: FetchConfig = FetchConfig()
    thought: ThoughtConfig = ThoughtConfig()
    memory: MemoryConfig = MemoryConfig()
    answer: AnswerRewardConfig
    reward: DocVStarReward
    context_tokens: int | None = Field(None, ge=1)
    """Tokens of prompt and response together, as far as the environment can count: images exactly,
    by the rule of `display`; texts by a cautious estimate. Pages that would leave less than
    `reserve_tokens` are withheld. `null` counts nothing; what does not fit is then dropped by the
    rollout, which ends the trajectory.
    """
    reserve_tokens: int = Field(2048, ge=0)
    """Tokens that pages must leave."""
    allow_unknown_evidence: bool = False
    """Train on answerable questions without evidence pages, whose evidence term is then 0 for all
    trajectories alike. Validation always plays them and reports them as `evidence_known` 0.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.retrieval.enabled or self.fetch.enabled):
            raise ValueError("retrieval and fetch are both off, so no page could ever be read")
        if self.context_tokens is not None and self.context_tokens <= self.reserve_tokens:
            raise ValueError(
                f"context_tokens={self.context_tokens} leaves nothing beside reserve_tokens"
            )
        for style in self.overview.styles if self.overview.enabled else ():
            for pages in range(1, style.pages_per_sheet + 1):
                width, height = style.grid(pages).size
                if not self.display.keeps((width, height)):
                    raise ValueError(
                        f"the image processor would reduce an overview sheet of {width}x{height} "
                        "pixels, "
                        "which ruins its labels: change the cells of the overview or "
                        "display.grid.max_pixels"
                    )
        return self

    @property
    def assistant_turns(self) -> int:
        """Assistant turns of a trajectory at most."""
        return self.max_turns

    @property
    def max_images(self) -> int:
        """Images after the prompt of a trajectory at most: the last turn leads to none."""
        retrieved = (self.retrieval.pages or self.retrieval.max_pages) * self.retrieval.enabled
        return (self.max_turns - 1) * max(retrieved, self.fetch.max_pages * self.fetch.enabled)

    def overview_tokens(self, num_pages: int) -> int:
        """Return the visual tokens in the prompt of a document, as far as the prompt holds them."""
        return (
            self.plan_tokens(next(self.overview.plans(num_pages))) if self.overview.enabled else 0
        )

    def plan_tokens(self, plan: OverviewPlan) -> int:
        """Return the visual tokens of an overview."""
        return sum(self.display.tokens(size) for size in plan.sizes)
