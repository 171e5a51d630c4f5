"""Views: the images that a trajectory shows, the part of a page on each, and crops of boxes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import Field

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import Frame, Raster, Rounding, crop_raster, raster_to_region
from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section
from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.documents.settings import DisplayError, Size
from docagent_rl.envs.effects import Effect
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.shown_page import ShownPage

if TYPE_CHECKING:
    from docagent_rl.documents.store import Page


@dataclass(frozen=True, slots=True)
class View:
    """An image that was shown: a whole page or a part of one.

    Args:
        page_size: size of the raw page.
        encoder_size: size of the image after the processor's rounding.
        tokens: number of visual tokens of the image.
        turn: number of the assistant turn that requested it, from 1.
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

    def shown(self) -> ShownPage:
        """Return the view in the form that the record of a turn stores."""
        return ShownPage(
            self.image.page,
            size=self.image.size,
            regions=(self.region.box,),
            rasters=(self.image.raster,),
            encoder_size=self.encoder_size,
            tokens=self.tokens,
        )


class Display(Protocol):
    """A rule for the sizes at which pages and parts of them are shown."""

    def shown(self, size: Size) -> Size:
        """Return the size at which an image is shown; raises `DisplayError` if there is none."""
        ...

    def encoder(self, shown: Size) -> Size:
        """Return the size of a shown image after the processor's rounding."""
        ...

    def tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown image."""
        ...


def page_view(page: Page, rule: Display, turn: int) -> View:
    """Return the view of a whole page; raises `UserError` if image processors reject its size."""
    width, height = page.size
    try:
        return _view(page.ref, page.image_hash, page.size, (0, 0, width, height), rule, turn)
    except DisplayError as error:
        raise UserError(
            f"page {page.ref} cannot be shown: {error}; leave its document out"
        ) from error


def crop_view(
    view: View,
    box: Box,
    rule: Display,
    turn: int,
    *,
    frame: Frame,
    rounding: Rounding,
    pad: float = 0.0,
) -> View:
    """Return the view of a box on another view (a page or a crop), cropped from the raw page.

    `box` and `pad` are in units of `frame`.

    Raises:
        CropError: the box is empty, inverted or off the page.
        DisplayError: image processors reject the size of the covered area.
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
    page: PageRef, page_hash: str, page_size: Size, raster: Raster, rule: Display, turn: int
) -> View:
    size = rule.shown((raster[2] - raster[0], raster[3] - raster[1]))
    image = ImageRef(page, page_hash, raster, size)
    return View(image, page_size, rule.encoder(size), rule.tokens(size), turn)


class ShowsImages:
    """A configuration with `max_images`, the maximum number of images, and their `display`."""

    @property
    def max_image_tokens(self: Any) -> int:
        """The maximum number of visual tokens of a trajectory, not counting its prompt."""
        return self.max_images * self.display.max_tokens()


class SearchScope(StrEnum):
    """The scope of a search."""

    CORPUS = "corpus"
    """All pages of the store."""
    DOCUMENT = "document"
    """The question's own document."""


class CoordsConfig(Section):
    """Settings for the parsing of boxes."""

    frame: Frame
    rounding: Rounding


class CropConfig(Section):
    """Settings for the cropping of boxes."""

    pad: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Margin added on all sides of a box, in units of the frame."""
    pad_val: float | None = Field(None, ge=0, allow_inf_nan=False)
    """The margin in validation; `pad` by default. The released validation used 28."""

    def padding(self, *, validate: bool) -> float:
        """Return the margin on all sides of a box, in training or in validation."""
        return self.pad_val if validate and self.pad_val is not None else self.pad


def last_view(effect: Effect, frame: Frame) -> tuple[Box, Size]:
    """Return the region that the most recent view shows, and the frame size of boxes on it.

    `effect` is the effect of the turn that showed it. If that turn did not show an image of a
    single part of a page, boxes refer to the whole page, in thousandths.
    """
    view = effect.views[-1] if effect.views else None
    if view is None or len(view.regions) != 1 or view.size is None or view.encoder_size is None:
        return (0.0, 0.0, 1.0, 1.0), (1000, 1000)
    return view.regions[0], frame.size(view.size, view.encoder_size)
