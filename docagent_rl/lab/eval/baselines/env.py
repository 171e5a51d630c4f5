"""The environment that baselines share: a question, pages shown in order, and the score of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import Answer, Fetch, Search
from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    EndReason,
    EnvState,
    ImagePart,
    Part,
    RewardTerms,
    TextPart,
    measured,
)
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import page_view
from docagent_rl.lab.eval.baselines.config import PageForm
from docagent_rl.rewards.retrieval import recall
from docagent_rl.samples.sample import Sample

_IMAGE_FRAME = 2
"""Tokens that a template puts around an image."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page with the line above it.

    Args:
        ref: the page.
        parts: what is shown.
        tokens: of the parts; texts are counted by the services' counter.
        image_tokens: those of its image.
        described: for the sample, JSON-ready.
    """

    ref: PageRef
    parts: tuple[Part, ...]
    tokens: int
    image_tokens: int
    described: dict[str, Any]


@dataclass(slots=True)
class Shown:
    """Pages in the order in which a prompt shows them.

    Args:
        pages: them.
        crowded_out: pages that would have come next and did not fit.
        beyond: pages behind those that the configuration lets a document have.
    """

    pages: list[ShownPage] = field(default_factory=list)
    crowded_out: int = 0
    beyond: int = 0

    @property
    def left_out(self) -> int:
        """Pages that are not shown, for either reason."""
        return self.crowded_out + self.beyond


@dataclass(slots=True)
class BaselineState(EnvState):
    """The state of an trajectory.

    Args:
        gold: pages of the evidence, possibly none.
        references: right answers.
        shown: pages that were shown, in order, each once.
        material: what the prompt shows.
        settled: length of `shown` before the last turn.
    """

    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    material: Shown = field(default_factory=Shown)
    settled: int = 0

    def show(self, pages: Sequence[ShownPage]) -> list[dict[str, Any]]:
        """Note pages as shown, and return their description for the trajectory."""
        self.shown += [ref for ref in dict.fromkeys(page.ref for page in pages) if ref not in self.shown]
        return [{**page.described, "gold": page.ref in self.gold} for page in pages]


class BaselineEnv(ToolEnv[BaselineState]):
    """An environment whose reward is the judge's verdict on the answer; validation changes nothing."""

    def new_state(self, sample: Sample) -> BaselineState:
        """See `DocEnv.new_state`."""
        gold = checked_gold(sample, self._services.store, allow_empty=True)
        return BaselineState(sample, gold, references(sample))

    def variables(self, state: BaselineState) -> Mapping[str, Any]:
        """Return the length of its document, and whether several are searched."""
        return {
            "num_pages": self._services.store.document(state.sample.doc_id).num_pages,
            "several": self._config.scope is SearchScope.CORPUS,
        }

    async def score(self, state: BaselineState, logged: LoggedTurn, action: Answer) -> float:
        """Return the judge's verdict on an answer that is not empty."""
        # texts in the prompt do not say of which page they are
        pages = state.show(state.material.pages)
        score = await self.judge(logged, state.references, action.text)
        logged.effect = {**logged.effect, **({"pages": pages} if pages else {})}
        return score

    def settle(self, end: EndReason, outcome: float) -> RewardTerms:
        """End the trajectory; its reward is the outcome."""
        state = self.running
        state.end, state.terms = end, RewardTerms({"outcome": outcome}, reward=outcome)
        return state.terms

    def metrics(self) -> dict[str, float]:
        """See `DocEnv.metrics`."""
        state = self.state
        found = {
            **state.common_metrics(["outcome"]),
            "searches": float(state.log.ran(Search)),
            "fetches": float(state.log.ran(Fetch)),
            "pages_seen": float(len(state.shown)),
            "pages_left_out": float(state.material.left_out),
            **measured({"retrieval_recall": recall(state.shown, state.gold)}),
        }
        found["image_tokens"] += sum(page.image_tokens for page in state.material.pages)
        return found

    def shown_pages(self, refs: Sequence[PageRef], turn: int) -> Iterator[ShownPage]:
        """Yield pages as image or text, each with a line that names it; reads files.

        Raises:
            UserError: there is no such page, or it cannot be shown.
        """
        for rank, ref in enumerate(refs, start=1):
            yield self._shown_page(ref, rank, turn)

    def _shown_page(self, ref: PageRef, rank: int, turn: int) -> ShownPage:
        page, count = self._services.store.page(ref), self._services.count_tokens
        label = f"{self.text('page_label', page=ref.page, doc_id=ref.doc_id)}\n"
        found: dict[str, Any] = {"page": str(ref), "rank": rank}
        if self._config.form is PageForm.IMAGE:
            view = page_view(page, self._config.display, turn)
            tokens = count(label) + view.tokens + _IMAGE_FRAME
            parts = (TextPart(label), ImagePart(view.image))
            return ShownPage(ref, parts, tokens, view.tokens, {**view.to_dict(), **found})
        # spellings of special tokens are broken anyway, and take more tokens then: counted as they will be
        text = cut_to_tokens(without_tokens(page.text().strip()), self._config.page_tokens, count)
        shown = f"{label}{self.text('page_text', text=text or self.text('no_text'))}\n"
        return ShownPage(ref, (TextPart(shown),), count(shown), 0, found)
