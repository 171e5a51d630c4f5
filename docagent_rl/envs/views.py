"""Views: the images an trajectory has shown, and what of which page each of them is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from docagent_rl.actions.base import Box
from docagent_rl.actions.coordinates import Frame, Raster, Rounding, crop_raster, raster_to_region
from docagent_rl.base.errors import UserError
from docagent_rl.documents import Page, PageRef, PageRegion
from docagent_rl.documents.display import DisplayError, DisplayRule, Size
from docagent_rl.envs.images import ImageRef


class SizeRule(Protocol):
    """How large images are shown: `DisplayRule`, or another rule with these methods."""

    def shown(self, size: Size) -> Size:
        """Return the size at which an image of `size` is handed to the processor; raises `DisplayError`."""
        ...

    def encoder(self, shown: Size) -> Size:
        """Return the size of a shown image after the processor's rounding."""
        ...

    def tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown image."""
        ...


class ViewKind(Enum):
    """Where a view came from."""

    PAGE = "page"
    CROP = "crop"


@dataclass(frozen=True, slots=True)
class View:
    """An image that was shown.

    Args:
        kind: a whole page or a part of one.
        image: what is shown.
        page_size: size of the raw page.
        encoder_size: size of the image after the processor's rounding.
        tokens: its visual tokens.
        turn: the assistant turn that led to it, from 1.
    """

    kind: ViewKind
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


def page_view(page: Page, rule: SizeRule, turn: int) -> View:
    """Return the view of a whole page.

    Raises:
        UserError: the page has sides that no image processor takes.
    """
    width, height = page.size
    try:
        return _view(ViewKind.PAGE, page.ref, page.image_hash, page.size, (0, 0, width, height), rule, turn)
    except DisplayError as error:
        raise UserError(f"page {page.ref} cannot be shown: {error}; leave its document out") from error


def crop_view(
    view: View,
    box: Box,
    rule: DisplayRule,
    turn: int,
    *,
    frame: Frame,
    rounding: Rounding,
    pad: float = 0.0,
) -> View:
    """Return the view of a box of another view, cut from the raw page.

    Args:
        view: the view that the box refers to, a page or itself a crop.
        box: `(x1, y1, x2, y2)` in units of `frame`.
        rule: how images are shown.
        turn: the assistant turn, from 1.
        frame: what the box is measured in.
        rounding: how to reach whole raw pixels.
        pad: added on all sides, in units of `frame`.

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
    return _view(ViewKind.CROP, image.page, image.page_hash, view.page_size, raster, rule, turn)


def _view(
    kind: ViewKind,
    page: PageRef,
    page_hash: str,
    page_size: Size,
    raster: Raster,
    rule: SizeRule,
    turn: int,
) -> View:
    size = rule.shown((raster[2] - raster[0], raster[3] - raster[1]))
    image = ImageRef(page, page_hash, raster, size)
    return View(kind, image, page_size, rule.encoder(size), rule.tokens(size), turn)
