"""The interface of rule-based agents that know the references; each system implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from docagent_rl.actions.base import Box
from docagent_rl.documents import PageRef
from docagent_rl.envs.checks import played_pages, references
from docagent_rl.envs.script import Act, ConfigT, Move, TurnWriter, WriterState
from docagent_rl.envs.views import SearchScope
from docagent_rl.samples.sample import gold_boxes_of

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore

TRIES = 2
"""The number of searches for one page after which an agent gives up on it."""


@dataclass(slots=True)
class AgentState(WriterState):
    """A trajectory as seen by an agent that knows the references."""

    store: DocumentStore
    seen: list[PageRef] = field(default_factory=list)
    """Pages that were shown to be read, in order."""
    magnified: set[PageRef] = field(default_factory=set)
    tries: dict[PageRef, int] = field(default_factory=dict)
    """The number of searches for each page so far."""
    searches: int = 0
    images: int = 0
    """The number of images shown so far, in systems that count them."""

    @property
    def left(self) -> int:
        """The number of remaining turns, including this one."""
        return self.turns - self.turn + 1

    @property
    def pages(self) -> range:
        """The pages of the question's document, or of its window of it."""
        _, pages = played_pages(self.sample, self.store)
        return pages

    @property
    def missing(self) -> list[PageRef]:
        """Gold pages that were neither shown nor given up on."""
        return [ref for ref in self.gold if ref not in self.seen and self.tries.get(ref, 0) < TRIES]

    @property
    def answer(self) -> str:
        """A right answer, in the form that judges expect."""
        return references(self.sample)[0]

    def boxes(self, page: PageRef) -> tuple[Box, ...]:
        """Return the evidence boxes on a page, as fractions of it; empty if they are unknown."""
        return gold_boxes_of(self.sample).get((page.doc_id, page.page), ())

    def look(self, pages: list[PageRef]) -> None:
        """Add pages that were shown to `seen`."""
        self.seen += [page for page in pages if page not in self.seen]


class ScriptedAgent(TurnWriter[ConfigT, AgentState], ABC):
    """Writes one system's turns for the oracle, oracles with detours, and the random agent."""

    forgives: ClassVar[bool] = True
    """True if the trajectory continues after a malformed turn."""

    @property
    def pages_a_search(self) -> int:
        """The number of new pages that a search shows."""
        return 1

    @property
    def corpus(self) -> bool:
        """Return whether searches cover all documents."""
        search = getattr(self.config, "search", None)
        return getattr(search, "scope", None) is SearchScope.CORPUS

    @abstractmethod
    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """Return the moves that are possible now."""

    @abstractmethod
    def right(self, state: AgentState) -> Act:
        """Return the best action of an agent that knows the references.

        A search may have no query; the first of its `pages` is then the page to find.
        """

    def needs(self, state: AgentState) -> int:
        """Return the minimum number of turns to the end, including the answer."""
        return len(state.missing) + 1

    def argument(self, act: Act, state: AgentState) -> object:
        """See `TurnWriter`."""
        return act.index if act.move is Move.SELECT else act.query or act.text

    def look(self, state: AgentState) -> None:
        """Add the pages that the previous turn showed to the agent's state."""
        state.look(state.brought)

    def search_for(self, state: AgentState) -> Act:
        """Return a search for the first missing gold page, or else for the question itself."""
        if state.missing:
            return Act(Move.SEARCH, pages=(state.missing[0],))
        return Act(Move.SEARCH, query=state.sample.question)

    def to_magnify(self, state: AgentState) -> PageRef | None:
        """Return the last shown page if it is gold, has boxes and was not magnified yet."""
        page = state.seen[-1] if state.seen else None
        if (
            page is None
            or page in state.magnified
            or page not in state.gold
            or not state.boxes(page)
        ):
            return None
        return page
