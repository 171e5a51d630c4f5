"""Messages of a trajectory as the page shows them: texts, and images by number with the pages they show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.rollout.evidence import gold_boxes, gold_pages, images_of

Size = tuple[int, int]


class PageSizes:
    """Sizes of raw pages in pixels: the store's, else as far as images of the trajectory reach."""

    def __init__(self, store: DocumentStore | None, trajectory: Mapping[str, Any]) -> None:
        self._store = store
        self._guessed: dict[str, Size] = {}
        self._of = cache(lambda page: self._stored(page) or self._guessed.get(page))
        for image in pieces_of(trajectory):
            page, raster = str(image.get("page")), image.get("raster")
            if isinstance(raster, Sequence) and len(raster) == 4:
                width, height = self._guessed.get(page, (0, 0))
                # whole pages are shown before parts of them: the furthest corner is that of the page
                self._guessed[page] = max(width, int(raster[2])), max(height, int(raster[3]))

    def fractions(self, page: str, raster: Any) -> list[float] | None:
        """Return a rectangle of raw pixels as fractions of the page; `None` where its size is unknown."""
        size = self._of(page)
        if size is None or not all(size) or not isinstance(raster, Sequence) or len(raster) != 4:
            return None
        return [end / side for end, side in zip(raster, 2 * size, strict=True)]

    def _stored(self, page: str) -> Size | None:
        try:
            return self._store.page(PageRef.parse(page)).size if self._store else None
        except UserError:
            return None


def pieces_of(trajectory: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every reference to a page in the images of a trajectory, those on sheets too."""
    for messages in (trajectory.get("prompt"), *(turn.get("observation") for turn in trajectory["turns"])):
        for image in images_of(messages):
            if "tiles" in image:
                yield from (tile["image"] for tile in image["tiles"])
            else:
                yield image


class Messages:
    """Describes the messages of a trajectory one after the other; images are numbered from 0 as they come."""

    def __init__(self, trajectory: Mapping[str, Any], store: DocumentStore | None) -> None:
        self.images = 0
        self._sizes = PageSizes(store, trajectory)
        self._gold, self._boxes = gold_pages(trajectory["sample"]), gold_boxes(trajectory["sample"])

    def described(self, messages: Any) -> list[dict[str, Any]]:
        """Return messages ready for JSON."""
        return [
            {"role": str(message.get("role", "")), "parts": list(self._parts(message))}
            for message in messages or ()
        ]

    def _parts(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for part in message.get("parts") or ():
            image = part.get("image")
            if isinstance(image, Mapping):
                yield {"image": self.images, "size": image.get("size"), **self._image(image)}
                self.images += 1
            else:
                yield {"text": str(part.get("text", ""))}

    def _image(self, image: Mapping[str, Any]) -> dict[str, Any]:
        if "tiles" not in image:
            return {
                **self._piece(image),
                "tiles": None,
                "gold_boxes": self._gold_boxes(str(image.get("page"))),
            }
        tiles = [
            {**self._piece(tile["image"]), "at": _place(tile, image["canvas"])} for tile in image["tiles"]
        ]
        pages = {str(tile["page"]) for tile in tiles}
        alone = pages.pop() if len(pages) == 1 else None
        return {
            "page": alone,
            "box": tiles[0]["box"] if len(tiles) == 1 else None,
            "tiles": tiles,
            "gold": any(tile["gold"] for tile in tiles),
            "gold_boxes": self._gold_boxes(alone),
        }

    def _piece(self, image: Mapping[str, Any]) -> dict[str, Any]:
        page = str(image.get("page"))
        box = self._sizes.fractions(page, image.get("raster"))
        return {"page": page, "box": box, "gold": page in self._gold}

    def _gold_boxes(self, page: str | None) -> list[list[float]]:
        return [list(box) for box in self._boxes.get(page or "", ())]


def _place(tile: Mapping[str, Any], canvas: Sequence[float]) -> list[float]:
    """Return where a tile lies on its sheet: left, top, width and height as fractions."""
    (left, top), (width, height) = tile["at"], tile["image"]["size"]
    return [left / canvas[0], top / canvas[1], width / canvas[0], height / canvas[1]]
