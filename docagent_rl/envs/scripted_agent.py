"""Agents that know the references and play by rules: what a system has to say of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from docagent_rl.actions.base import Box
from docagent_rl.documents import PageRef
from docagent_rl.envs.checks import references
from docagent_rl.envs.script import Act, Move, TurnWriter, WriterState
from docagent_rl.envs.views import SearchScope
from docagent_rl.samples.sample import gold_boxes_of

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore

TRIES = 2
"""Searches for one page, after which an agent gives it up."""


@dataclass(slots=True)
class AgentState(WriterState):
    """A trajectory from the side of an agent that knows the references; `store` holds the
    documents.
    """

    store: DocumentStore
    seen: list[PageRef] = field(default_factory=list)
    """Pages that were shown to read, in order."""
    magnified: set[PageRef] = field(default_factory=set)
    tries: dict[PageRef, int] = field(default_factory=dict)
    """Searches for a page so far."""
    searches: int = 0
    images: int = 0
    """Images shown so far, where a system counts them."""

    @property
    def left(self) -> int:
        """Turns that are left, this one included."""
        return self.turns - self.turn + 1

    @property
    def num_pages(self) -> int:
        """Pages of the question's document."""
        return self.store.document(self.sample.doc_id).num_pages

    @property
    def missing(self) -> list[PageRef]:
        """Gold pages that were not shown and not given up."""
        return [ref for ref in self.gold if ref not in self.seen and self.tries.get(ref, 0) < TRIES]

    @property
    def answer(self) -> str:
        """A right answer, as judges want it."""
        return references(self.sample)[0]

    def boxes(self, page: PageRef) -> tuple[Box, ...]:
        """Return the boxes of the evidence on a page, as fractions of it; none where they are
        unknown.
        """
        return gold_boxes_of(self.sample).get((page.doc_id, page.page), ())

    def look(self, pages: list[PageRef]) -> None:
        """Note pages that were shown."""
        self.seen += [page for page in pages if page not in self.seen]


class ScriptedAgent(TurnWriter, ABC):
    """Writes the turns of one system for the oracle, its detours and chance."""

    forgives: ClassVar[bool] = True
    """A turn that cannot be read leaves the trajectory going on."""

    @property
    def pages_a_search(self) -> int:
        """New pages that a search shows."""
        return 1

    @property
    def corpus(self) -> bool:
        """Searches look through all documents."""
        search = getattr(self.config, "search", None)
        return getattr(search, "scope", None) is SearchScope.CORPUS

    @abstractmethod
    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """Return the moves that may come now."""

    @abstractmethod
    def right(self, state: AgentState) -> Act:
        """Return the best action of an agent that knows the references.

        A search may leave its query open: the first of `pages` is what it is for.
        """

    def needs(self, state: AgentState) -> int:
        """Return the turns that the rest takes at least, the answer included."""
        return len(state.missing) + 1

    def argument(self, act: Act, state: AgentState) -> object:
        """See `TurnWriter`."""
        return act.index if act.move is Move.SELECT else act.query or act.text

    def look(self, state: AgentState) -> None:
        """Note what the last turn showed."""
        state.look(state.brought)

    def search_for(self, state: AgentState) -> Act:
        """Return a search for the first page that is missing, or for anything."""
        if state.missing:
            return Act(Move.SEARCH, pages=(state.missing[0],))
        return Act(Move.SEARCH, query=state.sample.question)

    def to_magnify(self, state: AgentState) -> PageRef | None:
        """Return the gold page with boxes that was shown last, unless it was magnified."""
        page = state.seen[-1] if state.seen else None
        if (
            page is None
            or page in state.magnified
            or page not in state.gold
            or not state.boxes(page)
        ):
            return None
        return page
