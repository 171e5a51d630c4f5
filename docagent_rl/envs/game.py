"""What a script knows of the session that it plays."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.checks import references
from docagent_rl.envs.script import Move, content_words
from docagent_rl.records.gold_boxes import gold_boxes
from docagent_rl.records.record import Record, parse_page_id

TRIES = 2
"""Searches for one page, after which it is given up."""


@dataclass(frozen=True, slots=True)
class Act:
    """What a turn is to do.

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
class Game:
    """A session from a script's side.

    Args:
        record: the question.
        store: its documents.
        turns: turns of an episode at most.
        rng: source of all choices.
    """

    record: Record
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
        """No turn follows."""
        return self.turn >= self.turns

    @property
    def left(self) -> int:
        """Turns that are left, the one to write included."""
        return self.turns - self.turn + 1

    @property
    def num_pages(self) -> int:
        """Of the question's document."""
        return self.store.document(self.record.doc_id).num_pages

    @property
    def effect(self) -> Mapping[str, Any]:
        """What the last turn led to; empty before the first."""
        return self.info.get("effect", {})

    @property
    def kind(self) -> str:
        """Of the effect."""
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
        own = self.record.doc_id
        found = (PageRef(doc_id, page) for doc_id, page in self.record.gold_pages)
        return sorted(found, key=lambda ref: (ref.doc_id != own, ref))

    @property
    def missing(self) -> list[PageRef]:
        """Those of them that were not shown and not given up."""
        return [ref for ref in self.gold if ref not in self.seen and self.tries.get(ref, 0) < TRIES]

    @property
    def answer(self) -> str:
        """A right answer, as judges want it."""
        return references(self.record)[0]

    def boxes(self, page: PageRef) -> tuple[Box, ...]:
        """Where the evidence is on a page, as fractions of it; empty where nobody said."""
        return gold_boxes(self.record).get((page.doc_id, page.page), ())

    def word(self) -> str:
        """A word of the question."""
        return self.rng.choice(content_words(self.record.question))

    def chance(self, share: float) -> bool:
        """True in a share of the cases."""
        return self.rng.random() < share

    def look(self, pages: list[PageRef]) -> None:
        """Note what was shown."""
        self.seen += [page for page in pages if page not in self.seen]


def on_view(box: Box, region: tuple[float, ...], frame: tuple[int, int]) -> list[int]:
    """A region of a page in the coordinates of the view that shows it, rounded outward and clamped.

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


def view_of(game: Game, frame: Frame) -> tuple[tuple[float, ...], tuple[int, int]]:
    """What of its page the view shown last shows, and the sides of the frame that boxes on it are in."""
    effect = game.effect
    pages = effect.get("pages")
    view = pages[-1] if pages else effect
    if "region" not in view:
        return (0.0, 0.0, 1.0, 1.0), (1000, 1000)
    width, height = view["size"]
    encoder = view["encoder_size"]
    return tuple(view["region"]), frame.size((width, height), (encoder[0], encoder[1]))


def _ref(page: str) -> PageRef:
    return PageRef(*parse_page_id(page))
