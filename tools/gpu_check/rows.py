"""Rows with pictures, and the batch that the plugin makes of them: patches of bytes, positions, masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack
from torch import Tensor
from verl.utils import tensordict_utils as tu

from docagent_rl.lab.sft.dataset import position_ids
from docagent_rl.lab.tiny.tokenizer import VISION_END, VISION_START
from docagent_rl.rollout.patches import FORMAT, GRIDS, PATCHES, PatchFormat, pack
from tools.gpu_check.batches import nested

TEMPERATURE = 0.7
LENGTHS = ((9, 40, (3, 2)), (5, 23, (4,)), (14, 83, ()), (3, 31, (2, 5, 3)))
"""Each row: tokens of the prompt, words of the response, and images, as tokens of their shorter side."""


@dataclass(frozen=True)
class ShownRow:
    """A row of random words and pictures.

    Attributes:
        ids: (t,) int64.
        prompt: tokens before the response.
        sampled: (t,) bool; words of the response.
        noise: (t,) weight of each token's log-prob in the loss.
        pictures: in the order of their placeholders.
    """

    ids: Tensor
    prompt: int
    sampled: Tensor
    noise: Tensor
    pictures: list[Image.Image]


def make_rows(processor: Any, seed: int = 0) -> list[ShownRow]:
    """Draw rows for a processor, or, for a model of text, a tokenizer."""
    draw = torch.Generator().manual_seed(seed)
    return [_row(processor, prompt, words, sides, draw) for prompt, words, sides in LENGTHS]


def _row(processor: Any, prompt: int, words: int, sides: tuple[int, ...], draw: torch.Generator) -> ShownRow:
    images = getattr(processor, "image_processor", None)
    pictures = [] if images is None else [_picture(images, side, draw) for side in sides]
    parts = [_words(processor, prompt + words // 2, draw)]
    parts += [_shown(processor, picture) for picture in pictures]
    parts.append(_words(processor, words - words // 2, draw))
    ids = torch.cat(parts)
    sampled = torch.zeros(len(ids), dtype=torch.bool)
    sampled[prompt : len(parts[0])] = True
    sampled[len(ids) - len(parts[-1]) :] = True
    return ShownRow(ids, prompt, sampled, torch.randn(len(ids), generator=draw), pictures)


def _picture(images: Any, side: int, draw: torch.Generator) -> Image.Image:
    """Noise of `side` by `side + 1` tokens, which the processor does not resize."""
    unit = images.patch_size * images.merge_size
    pixels = torch.randint(256, (side * unit, (side + 1) * unit, 3), generator=draw)
    return Image.fromarray(pixels.to(torch.uint8).numpy())


def _shown(processor: Any, picture: Image.Image) -> Tensor:
    tokenizer, images = processor.tokenizer, processor.image_processor
    begin, end = tokenizer.convert_tokens_to_ids([VISION_START, VISION_END])
    _, height, width = images(images=[picture], return_tensors="pt")["image_grid_thw"][0].tolist()
    return torch.tensor([begin, *[processor.image_token_id] * (height * width // images.merge_size**2), end])


def _words(processor: Any, count: int, draw: torch.Generator) -> Tensor:
    tokenizer = getattr(processor, "tokenizer", processor)
    words = sorted(set(range(len(tokenizer))) - set(tokenizer.added_tokens_decoder))
    return torch.tensor(words)[torch.randint(len(words), (count,), generator=draw)]


def as_batch(rows: list[ShownRow], processor: Any) -> TensorDict:
    """The batch of a worker: what the plugin would store of the rows, in verl's layout.

    `processor` has the `get_rope_index` that verl gives it; for a model of text it is a tokenizer.
    """
    shown = [_stored(row, getattr(processor, "image_processor", None)) for row in rows]
    known = processor if hasattr(processor, "image_processor") else None
    positions = [position_ids(row.ids, fields, known) for row, fields in zip(rows, shown, strict=True)]
    columns = {
        "input_ids": [row.ids for row in rows],
        "prompts": [row.ids[: row.prompt] for row in rows],
        "responses": [row.ids[row.prompt :] for row in rows],
        "response_mask": [row.sampled[row.prompt :].long() for row in rows],
        "loss_mask": [row.sampled[row.prompt :].long() for row in rows],
        "noise": [row.noise[row.prompt :] for row in rows],
    }
    data = TensorDict({key: nested(value) for key, value in columns.items()}, batch_size=len(rows))
    several = positions[0].ndim > 1
    data["position_ids"] = tu.nested_tensor_from_tensor_list(positions) if several else nested(positions)
    if known is not None:
        data["multi_modal_inputs"] = NonTensorStack(*shown)
    tu.assign_non_tensor(data, temperature=TEMPERATURE, pad_token_id=0)
    return data


def _stored(row: ShownRow, images: Any) -> dict[str, Tensor]:
    if not row.pictures:
        return {}
    layout = PatchFormat.of(images)
    patches, grids = zip(*(pack(images, picture, layout) for picture in row.pictures), strict=True)
    return {PATCHES: torch.cat(patches), FORMAT: layout.field(), GRIDS: torch.cat(grids)}
