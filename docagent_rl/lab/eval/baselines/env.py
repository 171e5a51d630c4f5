"""The environment that the baselines share: a question, pages in order, and scoring of the
answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Generic, TypeVar

from pydantic import Field

from docagent_rl.actions.base import Answer, Fetch, Search
from docagent_rl.base.section import Section
from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.base import (
    EndReason,
    EnvState,
    ImagePart,
    Part,
    RewardTerms,
    TextPart,
    measured,
)
from docagent_rl.envs.checks import checked_gold, played_pages, references
from docagent_rl.envs.effects import Answered
from docagent_rl.envs.outcome import Outcome
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import SearchScope, ShowsImages, page_view
from docagent_rl.rewards.retrieval import recall
from docagent_rl.samples.sample import Sample

_IMAGE_FRAME = 2
"""Tokens that a chat template puts around an image."""
_SPARE_TOKENS = 32
"""Tokens of the prompt that are left free for what a chat template adds."""


class PageForm(StrEnum):
    """The form in which pages are shown."""

    IMAGE = "image"
    TEXT = "text"


class PageConfig(ShowsImages, Section):
    """Settings for finding and showing pages."""

    prompt: ClassVar[str]
    """The prompt file of the baseline."""
    form: PageForm = PageForm.TEXT
    scope: SearchScope = SearchScope.DOCUMENT
    top_k: int = Field(5, ge=1)
    """Number of pages that one search shows."""
    page_tokens: int = Field(2048, ge=1)
    """Most tokens of a page's text; the rest is cut off."""
    display: DisplayRule = DisplayRule()

    @property
    def assistant_turns(self) -> int:
        """Most assistant turns of a trajectory."""
        return 1

    @property
    def max_images(self) -> int:
        """Most images of a trajectory."""
        return 0


class TurnsConfig(PageConfig):
    """Settings of baselines that search in turns of one context."""

    max_turns: int = Field(10, ge=1)
    """Assistant turns; in the last one the agent can only answer."""

    @property
    def assistant_turns(self) -> int:
        """Most assistant turns of a trajectory."""
        return self.max_turns

    @property
    def max_images(self) -> int:
        """Most images of a trajectory."""
        return (self.max_turns - 1) * self.top_k if self.form is PageForm.IMAGE else 0


@dataclass(frozen=True, slots=True)
class PagePrompt:
    """A page with the line above it; `record` is its record in the trajectory."""

    ref: PageRef
    parts: tuple[Part, ...]
    tokens: int
    image_tokens: int
    record: ShownPage


@dataclass(slots=True)
class BaselineState(EnvState):
    """The state of a trajectory."""

    shown_by_turn: ClassVar = ("shown",)
    pages: range
    """The pages of the document, or of the question's window of it."""
    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    """Pages that were shown, in order, without duplicates."""
    material: list[PagePrompt] = field(default_factory=list)
    """Pages in the prompt, in order."""
    left_out: int = 0
    """Number of pages that the prompt lacks, because they did not fit or exceed the limit on a
    document's pages.
    """

    def show(self, pages: Sequence[PagePrompt]) -> tuple[ShownPage, ...]:
        """Add pages to `shown`, and return their records for the trajectory."""
        self.shown += [
            ref for ref in dict.fromkeys(page.ref for page in pages) if ref not in self.shown
        ]
        return tuple(replace(page.record, gold=page.ref in self.gold) for page in pages)


ConfigT = TypeVar("ConfigT", bound=PageConfig)


class BaselineEnv(ToolEnv[ConfigT, BaselineState], Generic[ConfigT]):
    """An environment whose reward is the judge's verdict on the answer; validation is the same as
    training.
    """

    def new_state(self, sample: Sample) -> BaselineState:
        """See `DocEnv.new_state`."""
        store = self._services.store
        _, pages = played_pages(sample, store)
        gold = checked_gold(sample, store, allow_empty=True)
        return BaselineState(sample, pages, gold, references(sample))

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """Return the pages in play, and whether `several` documents are searched."""
        return {
            "num_pages": len(state.pages),
            "first_page": state.pages[0],
            "last_page": state.pages[-1],
            "several": self._config.scope is SearchScope.CORPUS,
        }

    def searched(self, sample: Sample) -> str | None:
        """Return the id of the document that searches look through, or `None` for all."""
        return sample.doc_id if self._config.scope is SearchScope.DOCUMENT else None

    async def score(self, state: BaselineState, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return the judge's verdict on the answer."""
        # texts in the prompt do not tell which page they come from
        pages = state.show(state.material)
        outcome = await self.judge(logged, state.references, action.text)
        if isinstance(logged.effect, Answered):
            logged.effect = replace(logged.effect, pages=pages)
        return outcome

    def final_terms(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory; its reward is the outcome."""
        state = self.running
        state.end = end
        state.terms = RewardTerms({"outcome": outcome.term}, reward=outcome.term)
        return state.terms

    def metrics(self) -> dict[str, float]:
        """See `DocEnv.metrics`."""
        state = self.state
        found = {
            **state.common_metrics(["outcome"]),
            "searches": float(state.log.ran(Search)),
            "fetches": float(state.log.ran(Fetch)),
            "pages_seen": float(len(state.shown)),
            "pages_left_out": float(state.left_out),
            **measured({"retrieval_recall": recall(state.shown, state.gold)}),
        }
        found["image_tokens"] += sum(page.image_tokens for page in state.material)
        return found

    def adapted(self) -> str | None:
        """Return the reason if less than everything is shown."""
        return "pages left out" if self.state.left_out else None

    def add_fitting(
        self,
        state: BaselineState,
        pages: Iterable[PagePrompt],
        every: int,
        text: str,
        reserved: int = 0,
    ) -> None:
        """Add the first pages to the material that fit together; further ones are not even read.

        `every` is the number of pages that there are, `text` the rest of the prompt, and `reserved`
        the number of tokens to leave free for what will be added to it.
        """
        room = float("inf")
        if self._services.prompt_tokens is not None:
            used = self._services.count_tokens(without_tokens(text)) + _SPARE_TOKENS
            room = self._services.prompt_tokens - used - reserved
        for page in pages:
            room -= page.tokens
            if room < 0:
                break
            state.material.append(page)
        state.left_out = every - len(state.material)

    def shown_pages(
        self, refs: Sequence[PageRef], turn: int, form: PageForm | None = None
    ) -> Iterator[PagePrompt]:
        """Yield pages as image or text, each below a line that names it. Reads files.

        `form` is that of the configuration unless it is given.

        Raises:
            UserError: a page does not exist, or cannot be shown.
        """
        form = form or self._config.form
        count = self._services.count_tokens
        for rank, ref in enumerate(refs, start=1):
            page = self._services.store.page(ref)
            label = f"{self.text('page_label', page=ref.page, doc_id=ref.doc_id)}\n"
            if form is PageForm.IMAGE:
                view = page_view(page, self._config.display, turn)
                tokens = count(label) + view.tokens + _IMAGE_FRAME
                parts = (TextPart(label), ImagePart(view.image))
                yield PagePrompt(ref, parts, tokens, view.tokens, replace(view.shown(), rank=rank))
                continue
            # `without_tokens` breaks up special tokens into more tokens, so it comes before the
            # cut
            text = cut_to_tokens(
                without_tokens(page.text().strip()), self._config.page_tokens, count
            )
            shown = f"{label}{self.text('page_text', text=text or self.text('no_text'))}\n"
            yield PagePrompt(ref, (TextPart(shown),), count(shown), 0, ShownPage(ref, rank=rank))
