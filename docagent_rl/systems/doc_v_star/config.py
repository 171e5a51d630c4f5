"""Configuration of Doc-V*: the paper's values, our choices where it gives none, further options.

No code was released, so there is only one variant. Keys outside `VARIANT_DEFAULTS` are our choices
where the paper is silent or contradicts itself.
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
"""The values of keys that a configuration omits or sets to `null`."""


class OverviewConfig(Section):
    """The thumbnails at the beginning of a trajectory."""

    enabled: bool = True
    """`false` is the ablation without them, in prompt and first observation."""
    cell_px: int = Field(ge=1)
    """Side of the square for a thumbnail, in pixels."""
    header_px: int = Field(24, ge=0)
    """Height of the band with the page number above a thumbnail, in pixels; 0 prints no numbers. 24
    and 256 pixels together are ten rows of visual tokens.
    """
    font_px: int = Field(18, ge=1)
    """Font size of the page number, in pixels."""
    pages_per_sheet: int = Field(36, ge=1)
    """Maximum number of pages in one image."""
    fit_cells_px: tuple[Annotated[int, Field(ge=1)], ...] = (228, 200, 172, 144, 116, 88)
    """Smaller cell sizes, tried in turn if the overview does not fit into the prompt
    (`docagent.rollout.prompt_tokens`); only those below `cell_px` are used.

    A sheet of the same area then holds more pages. If even the smallest cells do not fit, the
    overview shows every second page, or every third and so on, as large as possible, and says so.
    With the header, each size makes whole rows of visual tokens; the smallest shows 500 pages in
    8,192 tokens.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(after >= before for before, after in itertools.pairwise(self.fit_cells_px)):
            raise ValueError(f"fit_cells_px must be decreasing, found {self.fit_cells_px}")
        if self.header_px and self.font_px > self.header_px:
            raise ValueError(f"font_px={self.font_px} does not fit into header_px={self.header_px}")
        return self

    @property
    def styles(self) -> tuple[OverviewStyle, ...]:
        """All styles that a sheet may have, the largest cells first."""
        full = OverviewStyle(self.cell_px, self.header_px, self.font_px, self.pages_per_sheet)
        return (full, *(full.smaller(cell) for cell in self.fit_cells_px if cell < self.cell_px))

    def plans(self, num_pages: int) -> Iterator[OverviewPlan]:
        """Yield the possible overviews of a document, the best first.

        The first one that fits into the prompt is shown.
        """
        for stride in range(1, num_pages + 1):
            for style in self.styles:
                yield OverviewPlan(num_pages, style, self.cell_px, stride)


class RetrievalConfig(Section):
    """Retrieval of pages by a query."""

    enabled: bool = True
    """`false` is the ablation without it, in grammar and prompt."""
    pages: int | None = Field(None, ge=1)
    """Number of new pages that a retrieval shows; with `null` it depends on the document's length.
    """
    pages_divisor: int = Field(ge=1)
    """If `pages` is `null`, a retrieval shows one page per this many pages, rounded up."""
    max_pages: int = Field(ge=1)
    """If `pages` is `null`, the maximum number of new pages that a retrieval shows."""
    query_chars: int = Field(512, ge=1)
    """Longer queries are cut to this many characters."""

    def k(self, num_pages: int) -> int:
        """Return how many new pages a retrieval shows: `min(ceil(N / 10), 4)` (section 4.1)."""
        return self.pages or min(-(-num_pages // self.pages_divisor), self.max_pages)


class FetchConfig(Section):
    """Fetching of pages by their numbers."""

    enabled: bool = True
    """`false` is the ablation without it, in grammar and prompt."""
    max_pages: int = Field(4, ge=1)
    """Maximum pages of one call; more are not shown, but are not a fault. The paper has no
    limit.
    """


class ThoughtConfig(Section):
    """The blocks of thoughts."""

    analysis: bool = True
    """True if the thoughts of later turns begin with an analysis; `false` is the ablation."""


class MemoryConfig(Section):
    """The policy's summaries, which later observations repeat."""

    enabled: bool = True
    """`false` is the ablation without them."""
    summary_chars: int = Field(1500, ge=2)
    """Maximum characters of a summary when it is repeated; longer ones are cut only there."""


class AnswerRewardConfig(Section):
    """The scoring of answers."""

    threshold: float = Field(ge=0, le=1)
    """A similarity of free text below this value counts as 0."""
    identifier_rule: IdentifierRule = IdentifierRule.ALL
    """The kinds of answers that must match exactly."""
    abstentions: tuple[Annotated[str, Field(pattern=r"\w")], ...] = Field(ABSTENTIONS, min_length=1)
    """Texts that decline to answer; the prompt asks for the first one."""

    def rule(self) -> AnswerRule:
        """Return the rule by which answers are scored."""
        return AnswerRule(self.threshold, self.identifier_rule, self.abstentions)


class DocVStarConfig(ShowsImages, VariantSection):
    """Configuration of `DocVStarEnv`. Keys that are omitted or `null` take the variant's value."""

    variants = VARIANT_DEFAULTS
    prompt: ClassVar = "doc_v_star_paper"
    variant: Variant = "paper"
    max_turns: int = Field(ge=1)
    """Maximum number of assistant turns, including the answer (T)."""
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
    """Maximum tokens of prompt and response together, as far as the environment can count them.

    Images are counted exactly, according to `display`; texts by a cautious estimate. Pages that
    would leave fewer than `reserve_tokens` are withheld. With `null` nothing is counted; the
    rollout then drops an observation that does not fit, which ends the trajectory.
    """
    reserve_tokens: int = Field(2048, ge=0)
    """The number of tokens that must remain after pages are shown."""
    allow_unknown_evidence: bool = False
    """Train on answerable questions without evidence pages, whose evidence term is then 0 for all
    trajectories. Validation always plays them and reports them with `evidence_known` 0.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.retrieval.enabled or self.fetch.enabled):
            raise ValueError("retrieval and fetch are both disabled, so no page can be read")
        if self.context_tokens is not None and self.context_tokens <= self.reserve_tokens:
            raise ValueError(
                f"context_tokens={self.context_tokens} must be above "
                f"reserve_tokens={self.reserve_tokens}"
            )
        for style in self.overview.styles if self.overview.enabled else ():
            for pages in range(1, style.pages_per_sheet + 1):
                width, height = style.grid(pages).size
                if not self.display.keeps((width, height)):
                    raise ValueError(
                        f"the image processor would shrink an overview sheet of {width}x{height} "
                        "pixels, which makes its labels illegible: change the cells of the "
                        "overview or display.grid.max_pixels"
                    )
        return self

    @property
    def assistant_turns(self) -> int:
        """The maximum number of assistant turns."""
        return self.max_turns

    @property
    def max_images(self) -> int:
        """The maximum number of images after the prompt; the last turn shows none."""
        retrieved = (self.retrieval.pages or self.retrieval.max_pages) * self.retrieval.enabled
        return (self.max_turns - 1) * max(retrieved, self.fetch.max_pages * self.fetch.enabled)

    def overview_tokens(self, num_pages: int) -> int:
        """Return the visual tokens of a document's overview without a limit on the prompt."""
        return (
            self.plan_tokens(next(self.overview.plans(num_pages))) if self.overview.enabled else 0
        )

    def plan_tokens(self, plan: OverviewPlan) -> int:
        """Return the visual tokens of an overview."""
        return sum(self.display.tokens(size) for size in plan.sizes)
