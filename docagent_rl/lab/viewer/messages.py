"""Messages of a session as the page shows them: texts, and images by number with what they show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.lab.viewer.pages import PageSizes


@dataclass
class Messages:
    """Describes messages one after the other; images are numbered from 0 as they come.

    Args:
        sizes: of pages.
        gold: pages of the evidence as `doc#page`.
        boxes: of the evidence, by page, as fractions.
        images: that were numbered so far.
    """

    sizes: PageSizes
    gold: Collection[str]
    boxes: Mapping[str, Sequence[Sequence[float]]]
    images: int = field(default=0)

    def described(self, messages: Any) -> list[dict[str, Any]]:
        """Messages, ready for JSON."""
        return [
            {"role": str(message.get("role", "")), "parts": list(self._parts(message))}
            for message in messages or ()
        ]

    def _parts(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for part in message.get("parts") or ():
            image = part.get("image")
            if isinstance(image, Mapping):
                yield self._image(image)
                self.images += 1
            else:
                yield {"text": str(part.get("text", ""))}

    def _image(self, image: Mapping[str, Any]) -> dict[str, Any]:
        if "tiles" in image:
            return self._sheet(image)
        page = str(image.get("page"))
        return {
            "image": self.images,
            "page": page,
            "box": self.sizes.fractions(page, image.get("raster")),
            "size": image.get("size"),
            "tiles": None,
            "gold": page in self.gold,
            "gold_boxes": [list(box) for box in self.boxes.get(page, ())],
        }

    def _sheet(self, sheet: Mapping[str, Any]) -> dict[str, Any]:
        tiles = [self._tile(tile, sheet["canvas"]) for tile in sheet["tiles"]]
        pages = {tile["page"] for tile in tiles}
        alone = next(iter(pages)) if len(pages) == 1 else None
        return {
            "image": self.images,
            "page": alone,
            "box": tiles[0]["box"] if len(tiles) == 1 else None,
            "size": sheet.get("size"),
            "tiles": tiles,
            "gold": any(tile["gold"] for tile in tiles),
            "gold_boxes": [list(box) for box in self.boxes.get(alone, ())] if alone else [],
        }

    def _tile(self, tile: Mapping[str, Any], canvas: Sequence[float]) -> dict[str, Any]:
        image = tile["image"]
        page = str(image.get("page"))
        (left, top), (width, height) = tile["at"], image["size"]
        return {
            "page": page,
            "box": self.sizes.fractions(page, image.get("raster")),
            "at": [left / canvas[0], top / canvas[1], width / canvas[0], height / canvas[1]],
            "gold": page in self.gold,
        }
