"""Views: the images a trajectory has shown, the part of a page that each shows, and how boxes are cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import Field

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import Frame, Raster, Rounding, crop_raster, raster_to_region
from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.settings import DisplayError, Size
from docagent_rl.envs.images import ImageRef

if TYPE_CHECKING:
    from docagent_rl.documents.store import Page


@dataclass(frozen=True, slots=True)
class View:
    """An image that was shown: a whole page or a part of one.

    Args:
        page_size: of the raw page.
        encoder_size: of the image after the processor's rounding.
        tokens: its visual tokens.
        turn: the assistant turn that led to it, from 1.
    """

    image: ImageRef
    page_size: Size
    encoder_size: Size
    tokens: int
    turn: int

    @property
    def region(self) -> PageRegion:
        """The shown rectangle of the raw page."""
        return PageRegion(self.image.page, raster_to_region(self.image.raster, self.page_size))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "page": str(self.image.page),
            "raster": list(self.image.raster),
            "region": list(self.region.box),
            "size": list(self.image.size),
            "encoder_size": list(self.encoder_size),
            "tokens": self.tokens,
        }


def page_view(page: Page, rule: DisplayRule, turn: int) -> View:
    """Return the view of a whole page; raises `UserError` if its sides fit no image processor."""
    width, height = page.size
    try:
        return _view(page.ref, page.image_hash, page.size, (0, 0, width, height), rule, turn)
    except DisplayError as error:
        raise UserError(f"page {page.ref} cannot be shown: {error}; leave its document out") from error


def crop_view(
    view: View, box: Box, rule: DisplayRule, turn: int, *, frame: Frame, rounding: Rounding, pad: float = 0.0
) -> View:
    """Return the view of a box of another view, a page or itself a crop, cut from the raw page.

    `box` and `pad` are in units of `frame`.

    Raises:
        CropError: the box is empty, inverted or off the page.
        DisplayError: what it covers has sides that no image processor takes.
    """
    raster = crop_raster(
        box,
        view=view.image.raster,
        page=view.page_size,
        frame=frame.size(view.image.size, view.encoder_size),
        rounding=rounding,
        pad=pad,
    )
    image = view.image
    return _view(image.page, image.page_hash, view.page_size, raster, rule, turn)


def _view(
    page: PageRef, page_hash: str, page_size: Size, raster: Raster, rule: DisplayRule, turn: int
) -> View:
    size = rule.shown((raster[2] - raster[0], raster[3] - raster[1]))
    image = ImageRef(page, page_hash, raster, size)
    return View(image, page_size, rule.encoder(size), rule.tokens(size), turn)


class ShowsImages:
    """A configuration with `max_images`, images of a trajectory at most, and their `display`."""

    @property
    def max_image_tokens(self: Any) -> int:
        """Visual tokens of a trajectory at most, those of its prompt apart."""
        return self.max_images * self.display.max_tokens()


class SearchScope(StrEnum):
    """The scope of a search."""

    CORPUS = "corpus"
    """All pages of the store."""
    DOCUMENT = "document"
    """The question's own document."""


class CoordsConfig(Section):
    """The reading of boxes."""

    frame: Frame
    rounding: Rounding


class CropConfig(Section):
    """The cutting of boxes."""

    pad: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Added on all sides of a box, in units of the frame."""
    pad_val: float | None = Field(None, ge=0, allow_inf_nan=False)
    """The same in validation; by default `pad`. The released validation used 28."""

    def padding(self, *, validate: bool) -> float:
        """Return what is added on all sides of a box, in training or in validation."""
        return self.pad_val if validate and self.pad_val is not None else self.pad


def last_view(effect: Mapping[str, Any], frame: Frame) -> tuple[tuple[float, ...], tuple[int, int]]:
    """Return the region that the view shown last shows, and the sides of the frame of boxes on it.

    `effect` is that of the turn which showed it (`LoggedTurn`).
    """
    pages = effect.get("pages")
    view = pages[-1] if pages else effect
    if "region" not in view:
        return (0.0, 0.0, 1.0, 1.0), (1000, 1000)
    return tuple(view["region"]), frame.size(tuple(view["size"]), tuple(view["encoder_size"]))
