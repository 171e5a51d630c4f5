"""Search-R1 (arXiv 2503.09516): a model that reasons, searches and answers in tags."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from docagent_rl.actions.base import Search
from docagent_rl.actions.grammar import TagGrammar, read_answer, read_search
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import Part, TextPart, UnknownActionError
from docagent_rl.envs.effects import NoNewPage, PagesShown
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.env import BaselineEnv, BaselineState, PagePrompt, TurnsConfig

_PARTS = "system user information information_end page_label page_text no_text no_page feedback"
_VARIABLES = "question num_pages first_page last_page turns top_k page doc_id text several reason"


class SearchR1Config(TurnsConfig):
    """Configuration of `SearchR1Env`."""

    max_turns: int = Field(5, ge=1)
    """Assistant turns; in the last one the agent can only answer. By default four, as in the
    released scripts, and the answer.
    """
    top_k: int = Field(3, ge=1)
    """Most pages that one search shows: as many as passages in the released scripts."""
    information_tokens: int = Field(2048, ge=1)
    """Most tokens of the pages of one search; a first page is shown even if it has more.

    The released scripts cut what a search returns to 500 tokens, for passages, not pages.
    """
    prompt: ClassVar = "baseline_search_r1"


class SearchR1Env(BaselineEnv[SearchR1Config]):
    """A loop of reasoning, searches and what they return, between tags.

    A turn thinks in `<think>`, then asks in `<search>` or answers in `<answer>`; a search returns
    its best pages between `<information>` and `</information>`, whether or not they were shown
    before. An invalid turn counts and is answered with a message. The last turn can only answer,
    which is not announced.

    In the released code what a search returns continues the model's own text; here it is a user
    message, as VRAG-RL describes its own Search-R1 (appendix I.2).
    """

    title = "Search-R1"
    spec = PromptSpec(frozenset(_PARTS.split()), variables=frozenset(_VARIABLES.split()))

    @staticmethod
    def make_grammar(config: SearchR1Config) -> TagGrammar:
        """See `System.make_grammar`."""
        return TagGrammar({"search": read_search, "answer": read_answer})

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """See `BaselineEnv.variables`; adds the number of turns and of a search's pages."""
        turns = self._config.max_turns
        top_k = self._config.top_k
        return {**super().variables(state), "turns": turns, "top_k": top_k}

    async def act(self, state: BaselineState, logged: LoggedTurn) -> Sequence[Part]:
        """Search, and show the best pages."""
        action = logged.action
        if not isinstance(action, Search):
            raise UnknownActionError(self.title, action)
        hits = await self.search(
            logged,
            action.query,
            doc_id=self.searched(state.sample),
            top_k=self._config.top_k,
        )
        refs = [hit.ref for hit in hits]
        pages = await asyncio.to_thread(lambda: list(self._fitting(refs, logged.turn)))
        if pages:
            logged.effect = PagesShown(state.show(pages), hits=len(hits))
            logged.image_tokens = sum(page.image_tokens for page in pages)
            shown = [part for page in pages for part in page.parts]
        else:
            logged.effect = NoNewPage(hits=0)
            shown = [TextPart(f"{self.text('no_page')}\n")]
        before = TextPart(f"{self.text('information')}\n")
        return [before, *shown, self.part("information_end")]

    def _fitting(self, refs: Sequence[PageRef], turn: int) -> Iterator[PagePrompt]:
        """Yield the first pages that fit together, and in any case the first one."""
        room = self._config.information_tokens
        for number, page in enumerate(self.shown_pages(refs, turn)):
            room -= page.tokens
            if room < 0 and number:
                return
            yield page
