"""Configuration of MM-Doc-R1: what the paper says, and what was chosen where it is silent."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field

from docagent_rl.base.section import Section, VariantSection
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.views import ShowsImages
from docagent_rl.systems.mm_doc_r1.rewards import MMDocReward

MIN_CHARS = 8
"""The shortest limit that leaves room for text between two ellipses."""

READER_PIXELS = 2048 * 28 * 28
"""At most 2,048 visual tokens a page."""


Variant = Literal["paper"]


class MmDocSearchEngine(StrEnum):
    """The engine of a search."""

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
"""The paper's values, of keys that are left out or `null`."""


class PlanConfig(Section):
    """The input and the plan of the planner."""

    toc: bool = True
    """Show it the table of contents; `false` is the ablation without, where it reads `none`."""
    figures: bool = True
    """Show it the list of figures."""
    max_items: int = Field(ge=1)
    """Numbered items of a plan; what follows is cut."""
    max_tokens: int = Field(1024, ge=16)
    """Tokens of a plan; what follows is cut."""
    max_headings: int = Field(200, ge=1)
    """Above it the deepest level is left out, then the next; a last line says how many entries
    are.
    """
    max_title_chars: int = Field(100, ge=MIN_CHARS)
    max_figures: int = Field(200, ge=1)
    """The first ones; a last line says how many are left out."""
    max_caption_chars: int = Field(160, ge=MIN_CHARS)


class MmDocSearchConfig(Section):
    """The search for pages."""

    engine: MmDocSearchEngine = MmDocSearchEngine.DOCUMENT_BM25
    top_k: int = Field(ge=1)
    """Pages a search returns at most."""
    max_keywords: int = Field(8, ge=1)
    max_keyword_chars: int = Field(200, ge=1)
    snippet_chars: int = Field(240, ge=MIN_CHARS)
    k1: float = Field(1.5, ge=0, allow_inf_nan=False)
    """For `document_bm25`."""
    b: float = Field(0.75, ge=0, le=1)
    """For `document_bm25`."""


class ReadConfig(Section):
    """The reading of pages."""

    max_pages: int = Field(ge=1)
    """Pages of one entry; surplus ones are dropped with a remark. The paper tells its seeker 3."""
    max_entries: int = Field(2, ge=1)
    """Entries of one step; surplus ones are dropped with a remark."""
    note_tokens: int = Field(512, ge=16)
    """Tokens of the reader's notes on one entry; what follows is cut."""


class HistoryConfig(Section):
    """The seeker's past steps in its prompt."""

    prompt_tokens: int = Field(8192, ge=64)
    """Tokens of the seeker's prompt, never more than `docagent.rollout.prompt_tokens`. Above it the
    history is shortened: the oldest search results to page ids, then the oldest notes, then the
    oldest reasoning; never the question, the plan or the last step. A plan that does not fit beside
    the question is cut to half of what that leaves, so that there is room for steps.
    """
    reasoning_words: int = Field(150, ge=1)
    shortened_note_chars: int = Field(400, ge=MIN_CHARS)


class AnswerAgentConfig(Section):
    """The material of the answer agent."""

    max_tokens: int = Field(12_000, ge=256)
    page_text: bool = True
    """Show it the text layer of the pages that were read; `false` is the ablation without page
    OCR.
    """
    page_chars: int = Field(2000, ge=MIN_CHARS)
    """Characters of each such text."""
    snippets: bool = True
    """Show it snippets of pages that were found and not read."""
    snippet_chars: int = Field(120, ge=MIN_CHARS)
    snippet_share: float = Field(0.1, ge=0, le=1)
    """Share of `max_tokens` that all snippets together may take."""


class TrajectoryTextConfig(Section):
    """The text of a trajectory that estimators embed (SPO, Eq. 4)."""

    max_tokens: int = Field(8192, ge=16)
    """A longer text has shorter results of its steps; what still exceeds it loses its middle."""


class RolePrompts(Section):
    """Prompts of the roles: names of the package's prompts, or paths of `.yaml` files."""

    planner: str = "mm_doc_r1_planner"
    reader: str = "mm_doc_r1_reader"
    answer: str = "mm_doc_r1_answer"
    extractor: str = "mm_doc_r1_extractor"


class MMDocConfig(ShowsImages, VariantSection):
    """Configuration of `MMDocEnv`. Keys that are left out or `null` take the value of the
    variant.
    """

    variants = VARIANT_DEFAULTS
    prompt: ClassVar = "mm_doc_r1_seeker"
    max_images: ClassVar = 0
    """The seeker reads text."""
    variant: Variant = "paper"
    max_steps: int = Field(ge=1)
    """Responses of the seeker, the finishing one included; the action of the last is executed."""
    max_invalid_in_a_row: int = Field(2, ge=1)
    """So many invalid steps in a row end the trajectory."""
    plan: PlanConfig
    search: MmDocSearchConfig
    read: ReadConfig
    history: HistoryConfig = HistoryConfig()
    answer: AnswerAgentConfig = AnswerAgentConfig()
    reward: MMDocReward
    trajectory_text: TrajectoryTextConfig = TrajectoryTextConfig()
    display: DisplayRule
    """The size of page images for the reader; the seeker sees none."""
    prompts: RolePrompts = RolePrompts()

    @property
    def assistant_turns(self) -> int:
        """Steps of a trajectory at most; each is a context of its own."""
        return self.max_steps
