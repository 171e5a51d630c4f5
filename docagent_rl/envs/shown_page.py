"""Pages that a turn showed, found or had read, and their form in trajectory files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from docagent_rl.actions.coordinates import Raster
from docagent_rl.documents import Box, PageRef
from docagent_rl.documents.settings import Size
from docagent_rl.envs.recorded import (
    box_of,
    flag_of,
    listing,
    mapping,
    number_of,
    page_of,
    raster_of,
    size_of,
    text_of,
    whole_of,
)

WHOLE: Box = (0, 0, 1, 1)
"""The region of a whole page."""

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page that was shown to the agent: as an image, as an image of one or more parts, or as
    text.

    Args:
        page: the page.
        size: size of the image in pixels; `None` if the page was shown as text.
        regions: the parts of the page that the image shows, from top to bottom, as fractions of the
            page's sides.
        rasters: the same parts in pixels of the raw page.
        canvas: size of the sheet on which several parts are stacked, before it is resized; `None`
            if the image shows a single part.
        encoder_size: size of the image after the processor's rounding.
        tokens: number of visual tokens of the image.
        rank: rank of the page in its search, from 1.
        score: score of the page in its search.
        gold: whether the page is evidence.
        own: JSON-ready fields that a system adds.

    Fields that are `None` are unknown, and are not written.
    """

    page: PageRef
    size: Size | None = None
    regions: tuple[Box, ...] = ()
    rasters: tuple[Raster, ...] = ()
    canvas: Size | None = None
    encoder_size: Size | None = None
    tokens: int | None = None
    rank: int | None = None
    score: float | None = None
    gold: bool | None = None
    own: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def parts(self) -> tuple[Box, ...]:
        """The parts of the page that the image shows; empty for a whole page and for text."""
        return tuple(region for region in self.regions if region != WHOLE)

    def to_dict(self) -> dict[str, Any]:
        """Return the page as a JSON-ready dictionary."""
        regions = [list(region) for region in self.regions]
        rasters = [list(raster) for raster in self.rasters]
        if self.canvas is not None or len(regions) > 1:
            where = {
                "regions": regions,
                "rasters": rasters,
                "canvas": self.canvas and list(self.canvas),
            }
        else:
            where = {"region": next(iter(regions), None), "raster": next(iter(rasters), None)}
        written = {
            "page": str(self.page),
            **where,
            "size": self.size and list(self.size),
            "encoder_size": self.encoder_size and list(self.encoder_size),
            "tokens": self.tokens,
            "rank": self.rank,
            "score": self.score,
            "gold": self.gold,
        }
        return {**without_none(written), **self.own}

    @classmethod
    def from_dict(cls, data: object) -> ShownPage | None:
        """Parse the output of `to_dict`; `None` if it names no page."""
        found = mapping(data)
        page = page_of(found.get("page"))
        if page is None:
            return None
        as_text = found.get("form") == "text"
        return cls(
            page,
            size=None if as_text else size_of(found.get("size")),
            regions=known(map(box_of, listing(found.get("regions")) or [found.get("region")])),
            rasters=known(map(raster_of, listing(found.get("rasters")) or [found.get("raster")])),
            canvas=size_of(found.get("canvas")),
            encoder_size=size_of(found.get("encoder_size")),
            tokens=whole_of(found.get("tokens")),
            rank=whole_of(found.get("rank")),
            score=number_of(found.get("score")),
            gold=flag_of(found.get("gold")),
            own=rest_of(found, PAGE_KEYS),
        )


PAGE_KEYS = frozenset(
    {"page", "size", "encoder_size", "tokens", "rank", "score", "gold"}
    | {"region", "regions", "raster", "rasters", "canvas"}
)
"""The keys of a `ShownPage` in a file; any others are the system's own."""


@dataclass(frozen=True, slots=True)
class NamedPage:
    """A page that a search returned but did not show.

    Args:
        page: the page.
        rank: its rank in the search, from 1.
        score: its score in the search.
        read: whether it was read before.
        gold: whether it is evidence.
    """

    page: PageRef
    rank: int | None = None
    score: float | None = None
    read: bool | None = None
    gold: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the page as a JSON-ready dictionary without unknown fields."""
        others = {"rank": self.rank, "score": self.score, "read": self.read, "gold": self.gold}
        return {"page": str(self.page), **without_none(others)}

    @classmethod
    def from_dict(cls, data: object) -> NamedPage | None:
        """Parse the output of `to_dict`; `None` if it names no page."""
        found = mapping(data)
        page = page_of(found.get("page"))
        if page is None:
            return None
        return cls(
            page,
            rank=whole_of(found.get("rank")),
            score=number_of(found.get("score")),
            read=flag_of(found.get("read")),
            gold=flag_of(found.get("gold")),
        )


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """Pages that another model read for the agent, with one query.

    Args:
        pages: the pages, in the requested order.
        query: the query with which they were read.
        gold: for each page, whether it is evidence.
        cached: whether the notes were reused from an earlier turn.
    """

    pages: tuple[PageRef, ...]
    query: str = ""
    gold: tuple[bool, ...] = ()
    cached: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as a JSON-ready dictionary."""
        pages = [str(page) for page in self.pages]
        return {"pages": pages, "query": self.query, "gold": list(self.gold), "cached": self.cached}

    @classmethod
    def from_dict(cls, data: object) -> EntryRecord:
        """Parse the output of `to_dict`."""
        found = mapping(data)
        return cls(
            pages=known(map(page_of, listing(found.get("pages")))),
            query=text_of(found.get("query")) or "",
            gold=known(map(flag_of, listing(found.get("gold")))),
            cached=found.get("cached") is True,
        )


def known(values: Iterable[ValueT | None]) -> tuple[ValueT, ...]:
    """Return the values that are not `None`."""
    return tuple(value for value in values if value is not None)


def rest_of(found: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return the entries whose key is not among `keys`."""
    return {name: value for name, value in found.items() if name not in keys}


def without_none(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that are not `None`."""
    return {name: value for name, value in written.items() if value is not None}
