"""Configuration of MM-Doc-R1: the paper's values, and our choices where it gives none."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field

from docagent_rl.base.section import Section, VariantSection
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.views import ShowsImages
from docagent_rl.systems.mm_doc_r1.rewards import MMDocReward

MIN_CHARS = 8
"""The shortest limit that leaves room for text between two ellipses."""

CHARS_OF_TOKEN = 4
"""Characters of a token, for headings and captions (as in `estimated_tokens`)."""

READER_PIXELS = 2048 * 28 * 28
"""Corresponds to at most 2,048 visual tokens per page."""


Variant = Literal["paper"]


class MmDocSearchEngine(StrEnum):
    """The engine that executes searches."""

    DOCUMENT_BM25 = "document_bm25"
    """BM25 with the word statistics of the question's own document (the paper)."""
    RETRIEVER = "retriever"
    """The run's retriever, restricted to the document."""


VARIANT_DEFAULTS: Mapping[Variant, Mapping[str, Any]] = {
    "paper": {
        "max_steps": 4,
        "search": {"top_k": 10},
        "read": {"max_pages": 3},
        "plan": {"max_items": 10},
        "display": {"min_pixels": 56 * 56, "max_pixels": READER_PIXELS},
        "reward": {"pages": 1.0, "correctness": 1.0},
    },
}
"""The paper's values of keys that a configuration omits or sets to `null`."""


class PlanConfig(Section):
    """The planner's input and output."""

    toc: bool = True
    """Show the table of contents to the planner; in the ablation (`false`) it sees `none`."""
    figures: bool = True
    """Show the list of figures to the planner."""
    max_items: int = Field(ge=1)
    """Maximum number of items of a plan; further items are cut."""
    max_tokens: int = Field(1024, ge=16)
    """Maximum number of tokens of a plan; further text is cut."""
    max_headings: int = Field(200, ge=1)
    """Maximum number of headings. If there are more, the deepest level is left out, then the next
    one; a last line says how many entries are missing.
    """
    max_title_chars: int = Field(100, ge=MIN_CHARS)
    max_figures: int = Field(200, ge=1)
    """Maximum number of figures, the first ones; a last line says how many are missing."""
    max_caption_chars: int = Field(160, ge=MIN_CHARS)


class MmDocSearchConfig(Section):
    """The search for pages."""

    engine: MmDocSearchEngine = MmDocSearchEngine.DOCUMENT_BM25
    top_k: int = Field(ge=1)
    """Maximum number of pages that a search returns."""
    max_keywords: int = Field(8, ge=1)
    max_keyword_chars: int = Field(200, ge=1)
    snippet_chars: int = Field(240, ge=MIN_CHARS)
    k1: float = Field(1.5, ge=0, allow_inf_nan=False)
    """BM25's k1, for `document_bm25`."""
    b: float = Field(0.75, ge=0, le=1)
    """BM25's b, for `document_bm25`."""


class ReadConfig(Section):
    """The reading of pages."""

    max_pages: int = Field(ge=1)
    """Maximum pages of one entry; more are dropped with a remark. The paper's prompt says 3."""
    max_entries: int = Field(2, ge=1)
    """Maximum entries of one step; more are dropped with a remark."""
    note_tokens: int = Field(512, ge=16)
    """Maximum tokens of the reader's notes on one entry; further text is cut."""


class HistoryConfig(Section):
    """The seeker's past steps in its prompt."""

    prompt_tokens: int = Field(8192, ge=64)
    """Maximum tokens of the seeker's prompt; `docagent.rollout.prompt_tokens` is a limit too.

    If the prompt is longer, the history is shortened: the oldest search results to page ids, then
    the oldest notes, then the oldest reasoning; never the question, the plan or the last step. A
    plan that does not fit next to the question is cut to half of the remaining tokens, so that
    there is room for steps.
    """
    reasoning_words: int = Field(150, ge=1)
    shortened_note_chars: int = Field(400, ge=MIN_CHARS)


class AnswerAgentConfig(Section):
    """The input of the answer agent."""

    max_tokens: int = Field(12_000, ge=256)
    page_text: bool = True
    """Show the text layer of the pages that were read; `false` is the ablation without page OCR."""
    page_chars: int = Field(2000, ge=MIN_CHARS)
    """Maximum characters of each page's text."""
    snippets: bool = True
    """Show snippets of pages that were found but not read."""
    snippet_chars: int = Field(120, ge=MIN_CHARS)
    snippet_share: float = Field(0.1, ge=0, le=1)
    """Maximum share of `max_tokens` for all snippets together."""


class TrajectoryTextConfig(Section):
    """The text of a trajectory that estimators embed (SPO, Eq. 4)."""

    max_tokens: int = Field(8192, ge=16)
    """In a longer text the results of steps are shortened; if that is not enough, its middle is
    cut.
    """


class RolePrompts(Section):
    """Prompts of the roles: names of packaged prompts, or paths of `.yaml` files."""

    planner: str = "mm_doc_r1_planner"
    reader: str = "mm_doc_r1_reader"
    answer: str = "mm_doc_r1_answer"
    extractor: str = "mm_doc_r1_extractor"


class MMDocConfig(ShowsImages, VariantSection):
    """Configuration of `MMDocEnv`. Keys that are omitted or `null` take the variant's value."""

    variants = VARIANT_DEFAULTS
    prompt: ClassVar = "mm_doc_r1_seeker"
    max_images: ClassVar = 0
    """The seeker sees no images."""
    variant: Variant = "paper"
    max_steps: int = Field(ge=1)
    """Maximum number of the seeker's responses, including the one that finishes; the action of the
    last one is executed.
    """
    max_invalid_in_a_row: int = Field(2, ge=1)
    """The number of consecutive invalid steps that ends the trajectory."""
    plan: PlanConfig
    search: MmDocSearchConfig
    read: ReadConfig
    history: HistoryConfig = HistoryConfig()
    answer: AnswerAgentConfig = AnswerAgentConfig()
    reward: MMDocReward
    trajectory_text: TrajectoryTextConfig = TrajectoryTextConfig()
    display: DisplayRule
    """The size of the page images that the reader sees; the seeker sees none."""
    prompts: RolePrompts = RolePrompts()

    @property
    def role_tokens(self) -> dict[RoleName, int]:
        """The most tokens of material that roles read in one request; the extractor reads an
        answer.
        """
        plan = self.plan
        headings = plan.max_headings * plan.max_title_chars
        captions = plan.max_figures * plan.max_caption_chars
        return {
            RoleName.PLANNER: (headings + captions) // CHARS_OF_TOKEN,
            RoleName.READER: self.read.max_pages * self.display.max_tokens(),
            RoleName.ANSWER: self.answer.max_tokens,
        }

    @property
    def assistant_turns(self) -> int:
        """The maximum number of steps; each has its own context."""
        return self.max_steps
