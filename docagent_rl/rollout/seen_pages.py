"""Facts of a recorded trajectory: its evidence, the pages found and shown, and the answer.

Trajectories are parsed as they were written: values that are not a valid page or box are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import composed
from docagent_rl.envs.effects import Candidates
from docagent_rl.envs.recorded import box_of, listing, mapping, size_of
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.samples.sample import parse_page_id
from docagent_rl.samples.window import window_of

Fractions = tuple[float, float, float, float]
"""`(x1, y1, x2, y2)` as fractions of a page's sides, 0 to 1."""


def gold_pages(sample: Mapping[str, Any]) -> frozenset[str]:
    """Return the evidence pages in play as `doc#page`; see `Sample.gold_pages`."""
    extra = mapping(sample.get("extra"))
    own = sample.get("doc_id")
    pages = extra.get("page_ids")
    if isinstance(pages, list | tuple):
        found = frozenset(composed(str(page)) for page in pages)
    else:
        found = frozenset(f"{own}#{page}" for page in sample.get("evidence_pages") or ())
    window = window_of(extra)
    if window is None:
        return found
    inside = {f"{own}#{page}" for page in window}
    return frozenset(page for page in found if page in inside or page.rpartition("#")[0] != own)


def gold_boxes(sample: Mapping[str, Any]) -> dict[str, list[Fractions]]:
    """Return the evidence boxes in all documents by `doc#page`; see `samples.sample.gold_boxes_of`.

    Invalid pages and boxes are skipped, since trajectories are parsed as they were written.
    """
    boxes_by_page = dict(mapping(mapping(sample.get("extra")).get("other_boxes")))
    for page, boxes in mapping(sample.get("evidence_boxes")).items():
        boxes_by_page[f"{sample.get('doc_id')}#{page}"] = boxes

    found: dict[str, list[Fractions]] = {}
    for page, boxes in boxes_by_page.items():
        if _is_page(page) and isinstance(boxes, list | tuple):
            parsed = map(box_of, boxes)
            found[composed(page)] = [box for box in parsed if box is not None]
    return found


def _is_page(text: str) -> bool:
    try:
        parse_page_id(text)
    except UserError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class PlayedSearch:
    """A search: its query and the pages that it returned, as `doc#page`."""

    query: str
    pages: tuple[str, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PlayedSearch:
        """Parse the output of `SearchNote.to_dict`; raises `KeyError` and the like for other
        data.
        """
        return cls(str(data.get("query")), tuple(str(page) for page, *_ in data["hits"]))


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """The part of a recorded turn that tells which pages were found and shown.

    Args:
        record: the record of the turn.
        searches: its searches.
        images: the images of its observation, as they were described.
        dropped: whether its observation was never shown.
        row: the row of the trajectory to which it belongs, from 0.
    """

    record: TurnRecord
    searches: tuple[PlayedSearch, ...] = ()
    images: tuple[Mapping[str, Any], ...] = ()
    dropped: bool = False
    row: int = 0

    @classmethod
    def of(cls, turn: object, record: TurnRecord) -> PlayedTurn:
        """Parse a turn of a trajectory file; its record was parsed before.

        Raises `KeyError` and the like for searches in another format.
        """
        found = mapping(turn)
        return cls(
            record,
            tuple(map(PlayedSearch.from_dict, found.get("searches") or ())),
            tuple(images_of(found.get("observation"))),
            dropped=bool(found.get("dropped")),
            row=found.get("row", 0),
        )

    @property
    def found(self) -> tuple[str, ...]:
        """The pages that its searches returned, as `doc#page`."""
        searched = [page for search in self.searches for page in search.pages]
        return (*searched, *map(str, self.record.effect.found))

    def seen_pages(self, number: int) -> Iterator[SeenPage]:
        """Yield the pages that the turn showed; `number` is the turn's own number, from 0."""
        return pages_seen_in_turn(self.record, self.images, number)


@dataclass(frozen=True, slots=True)
class SeenPage:
    """A page (`doc#page`) that was shown by a turn, numbered from 0, or by the prompt, -1.

    `regions` is empty for a whole page, and `pixels` is `None` for text. A `candidate` was shown as
    one of several pages to choose from.
    """

    page: str
    turn: int
    regions: tuple[Fractions, ...] = ()
    pixels: int | None = None
    candidate: bool = False


def pages_seen_in_prompt(prompt: Any) -> Iterator[SeenPage]:
    """Yield the pages that a prompt shows; sheets of thumbnails do not count, as none is
    legible.
    """
    yield from _pages_of_images(images_of(prompt), -1)


def pages_seen_in_turn(
    record: TurnRecord, images: Iterable[Mapping[str, Any]], number: int
) -> Iterator[SeenPage]:
    """Yield the pages that a turn showed, according to the record of its environment.

    If its effect names no pages, the `images` of its observation count as whole pages.
    """
    effect = record.effect
    for page in effect.read:
        yield SeenPage(str(page), number)
    for view in effect.views:
        pixels = None if view.size is None else view.size[0] * view.size[1]
        yield SeenPage(str(view.page), number, view.parts, pixels, isinstance(effect, Candidates))
    if not effect.read and not effect.views:
        yield from _pages_of_images(images, number)


def _pages_of_images(images: Iterable[Mapping[str, Any]], turn: int) -> Iterator[SeenPage]:
    for image in images:
        if "tiles" in image or not image.get("page"):
            continue
        size = size_of(image.get("size"))
        yield SeenPage(str(image["page"]), turn, pixels=None if size is None else size[0] * size[1])


def images_of(messages: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the images of recorded messages in order, as they were described."""
    for message in messages or ():
        yield from (part["image"] for part in message["parts"] if "image" in part)


def records_of(trajectory: Mapping[str, Any]) -> list[TurnRecord]:
    """Return the records of the turns of a serialised trajectory."""
    turns = listing(trajectory.get("turns"))
    return [TurnRecord.from_dict(mapping(turn).get("info")) for turn in turns]


def answer_in(records: Iterable[TurnRecord]) -> str | None:
    """Return the last answer, or its short form if there is one; `None` without an answer."""
    answer, short = answers_of(records)
    return answer if short is None else short


def answers_of(records: Iterable[TurnRecord]) -> tuple[str | None, str | None]:
    """Return the last answer and the short answer that the system extracted from it, if any."""
    for record in reversed(list(records)):
        written = record.written
        if written is not None and written.answer.strip():
            return written.answer, written.extracted
        if record.action.kind == "answer" and record.executed:
            text = record.action.text
            return (text if text and text.strip() else None), None
    return None, None
