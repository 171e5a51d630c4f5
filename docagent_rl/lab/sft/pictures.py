"""Pictures back from their JSON form (`Picture.to_dict`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import Fill, ImageRef, ImageSheet, Label, Picture, Resample, Tile


def read_picture(data: Mapping[str, Any]) -> Picture:
    """The inverse of `ImageRef.to_dict` and `ImageSheet.to_dict`.

    Raises:
        UserError: a key is missing or of a wrong type.
    """
    try:
        return _sheet(data) if "tiles" in data else _reference(data)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"not a picture: {type(error).__name__}: {error} in {json.dumps(data)}") from error


def _reference(data: Mapping[str, Any]) -> ImageRef:
    return ImageRef(
        page=PageRef.parse(data["page"]),
        page_hash=str(data["page_hash"]),
        raster=_whole(data["raster"], 4),
        size=_whole(data["size"], 2),
        resample=Resample(data["resample"]),
    )


def _sheet(data: Mapping[str, Any]) -> ImageSheet:
    return ImageSheet(
        canvas=_whole(data["canvas"], 2),
        size=_whole(data["size"], 2),
        tiles=tuple(Tile(_reference(tile["image"]), _whole(tile["at"], 2)) for tile in data["tiles"]),
        fills=tuple(Fill(_whole(fill["box"], 4), _whole(fill["colour"], 3)) for fill in data["fills"]),
        labels=tuple(
            Label(str(label["text"]), _whole(label["box"], 4), int(label["font_px"]))
            for label in data["labels"]
        ),
        background=_whole(data["background"], 3),
    )


def _whole(values: Any, count: int) -> Any:
    numbers = tuple(int(value) for value in values)
    if len(numbers) != count:
        raise ValueError(f"{count} numbers expected, found {len(numbers)}")
    return numbers
