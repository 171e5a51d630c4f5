"""Agents that know the references: the state of an trajectory from their side, and how they write turns."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.checks import references
from docagent_rl.envs.script import Move, TurnWriter, content_words
from docagent_rl.samples.sample import Sample, gold_boxes, parse_page_id

TRIES = 2
"""Searches for one page, after which it is given up."""


@dataclass(frozen=True, slots=True)
class Act:
    """The action that a turn is to hold.

    Args:
        move: its kind.
        query: what is looked for.
        pages: pages that are opened, or the one that a search is for.
        index: of a candidate, from 0.
        boxes: regions of the page shown last, as fractions of it.
        text: of an answer.
    """

    move: Move
    query: str = ""
    pages: tuple[PageRef, ...] = ()
    index: int = 0
    boxes: tuple[Box, ...] = ()
    text: str = ""


@dataclass(slots=True)
class AgentState:
    """A trajectory from a script's side.

    Args:
        sample: the question.
        store: its documents.
        turns: turns of an trajectory at most.
        rng: source of all choices.
    """

    sample: Sample
    store: DocumentStore
    turns: int
    rng: random.Random
    turn: int = 1
    """The one to write."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What the last one led to (`StepResult.info`)."""
    seen: list[PageRef] = field(default_factory=list)
    """Pages that were shown to read, in order."""
    magnified: set[PageRef] = field(default_factory=set)
    tries: dict[PageRef, int] = field(default_factory=dict)
    """Searches for a page so far."""
    searches: int = 0
    images: int = 0
    """Shown so far, where a system counts them."""

    @property
    def last(self) -> bool:
        """Whether no turn follows."""
        return self.turn >= self.turns

    @property
    def left(self) -> int:
        """Turns that are left, the one to write included."""
        return self.turns - self.turn + 1

    @property
    def num_pages(self) -> int:
        """Pages of the question's document."""
        return self.store.document(self.sample.doc_id).num_pages

    @property
    def effect(self) -> Mapping[str, Any]:
        """What the last turn led to; empty before the first."""
        return self.info.get("effect", {})

    @property
    def kind(self) -> str:
        """The kind of the effect."""
        return str(self.effect.get("kind", ""))

    @property
    def brought(self) -> list[PageRef]:
        """Pages that the last turn brought up."""
        effect = self.effect
        pages = effect.get("pages") or effect.get("hits") or ()
        return [_ref(page["page"]) for page in pages] if isinstance(pages, list) else []

    @property
    def gold(self) -> list[PageRef]:
        """Pages that hold the evidence, those of the question's own document first."""
        own = self.sample.doc_id
        found = (PageRef(doc_id, page) for doc_id, page in self.sample.gold_pages)
        return sorted(found, key=lambda ref: (ref.doc_id != own, ref))

    @property
    def missing(self) -> list[PageRef]:
        """Those of them that were not shown and not given up."""
        return [ref for ref in self.gold if ref not in self.seen and self.tries.get(ref, 0) < TRIES]

    @property
    def answer(self) -> str:
        """A right answer, as judges want it."""
        return references(self.sample)[0]

    def boxes(self, page: PageRef) -> tuple[Box, ...]:
        """Return where the evidence is on a page, as fractions of it; empty where nobody said."""
        return gold_boxes(self.sample).get((page.doc_id, page.page), ())

    def word(self) -> str:
        """Return a word of the question."""
        return self.rng.choice(content_words(self.sample.question))

    def chance(self, share: float) -> bool:
        """Return true in a share of the cases."""
        return self.rng.random() < share

    def look(self, pages: list[PageRef]) -> None:
        """Note pages that were shown."""
        self.seen += [page for page in pages if page not in self.seen]


class ScriptedAgent(TurnWriter, ABC):
    """Writes the turns of one system for the oracle, its detours and chance."""

    forgives: ClassVar[bool] = True
    """Whether a turn that cannot be read leaves the trajectory going on."""
    thoughts: ClassVar[Mapping[Move, str]]
    """The thought before each action, with a place for a word."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def pages_a_search(self) -> int:
        """New pages that a search shows."""
        return 1

    @property
    def corpus(self) -> bool:
        """Whether searches look through all documents."""
        return False

    @abstractmethod
    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """Return what may come now."""

    @abstractmethod
    def right(self, state: AgentState) -> Act:
        """Return the best action of somebody who knows the references.

        A search may leave its query open: the first of `pages` is what it is for.
        """

    @abstractmethod
    def needs(self, state: AgentState) -> int:
        """Return the turns that the rest takes when everything goes well, the answer included, without what
        may be left out.
        """

    def write(self, act: Act, state: AgentState) -> str:
        """Return a well-formed turn: a thought, then the action."""
        return f"<think>{self.thought(act, state)}</think>{self.action(act, state)}"

    def thought(self, act: Act, state: AgentState) -> str:
        """Return a thought about a word of the question."""
        return self.thoughts[act.move].format(state.word())

    def action(self, act: Act, state: AgentState) -> str:
        """Return the block of an action."""
        return self.block(act.move, self.argument(act, state))

    def argument(self, act: Act, state: AgentState) -> object:
        """Return the content of the block of an action."""
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
        if page is None or page in state.magnified or page not in state.gold or not state.boxes(page):
            return None
        return page


def on_view(box: Box, region: tuple[float, ...], frame: tuple[int, int]) -> list[int]:
    """Return a region of a page in the coordinates of the view that shows it, rounded outward and clamped.

    Args:
        box: as fractions of the page.
        region: what of the page the view shows.
        frame: sides of the frame that coordinates are measured in.
    """
    left, top, right, bottom = region
    (width, height), (across, down) = frame, (right - left, bottom - top)
    x1, y1 = (box[0] - left) / across * width, (box[1] - top) / down * height
    x2, y2 = (box[2] - left) / across * width, (box[3] - top) / down * height
    # what is a whole number but for the last digits is one
    x1, y1, x2, y2 = (round(edge, 6) for edge in (x1, y1, x2, y2))
    first = [min(side - 1, max(0, math.floor(edge))) for edge, side in zip((x1, y1), frame, strict=True)]
    return [
        *first,
        *(max(a + 1, min(b, math.ceil(c))) for a, b, c in zip(first, frame, (x2, y2), strict=True)),
    ]


def view_of(state: AgentState, frame: Frame) -> tuple[tuple[float, ...], tuple[int, int]]:
    """Return the region that the view shown last shows, and the sides of the frame of boxes on it."""
    effect = state.effect
    pages = effect.get("pages")
    view = pages[-1] if pages else effect
    if "region" not in view:
        return (0.0, 0.0, 1.0, 1.0), (1000, 1000)
    width, height = view["size"]
    encoder = view["encoder_size"]
    return tuple(view["region"]), frame.size((width, height), (encoder[0], encoder[1]))


def _ref(page: str) -> PageRef:
    return PageRef(*parse_page_id(page))
