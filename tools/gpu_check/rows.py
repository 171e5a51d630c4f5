"""Make rows with pictures, and the batch that the plugin would make from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack
from torch import Tensor
from verl.utils import tensordict_utils as tu

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.lab.sft.dataset import position_ids
from docagent_rl.rollout.images import EncodedImage, join_patches, whole_features
from docagent_rl.rollout.patches import PatchFormat
from tools.gpu_check.batches import nested

TEMPERATURE = 0.7
LENGTHS = ((9, 40, (3, 2)), (5, 23, (4,)), (14, 83, ()), (3, 31, (2, 5, 3, 2)))
"""For each row: the tokens of the prompt, the words of the response, and its images, each given by
the tokens of its shorter side. Two images of a row, and some of different rows, have the same size,
so that swapped images would change only the numbers.
"""


UNIT = 32
"""Side of a picture in pixels per token, for processors that resize all pictures."""


@dataclass(frozen=True)
class ShownRow:
    """A row of random words and pictures.

    Attributes:
        ids: token ids, (t,) int64.
        prompt: number of tokens before the response.
        sampled: (t,) bool, true for the words of the response.
        noise: (t,), the weight of each token's log-prob in the loss.
        pictures: the pictures, in the order of their placeholders.
    """

    ids: Tensor
    prompt: int
    sampled: Tensor
    noise: Tensor
    pictures: list[Image.Image]


def make_rows(processor: Any, seed: int = 0) -> list[ShownRow]:
    """Draw rows for a processor or, for a text-only model, a tokenizer."""
    draw = torch.Generator().manual_seed(seed)
    return [_row(processor, prompt, words, sides, draw) for prompt, words, sides in LENGTHS]


def _row(
    processor: Any, prompt: int, words: int, sides: tuple[int, ...], draw: torch.Generator
) -> ShownRow:
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
    """Return a picture of noise with `side` by `side + 1` tokens.

    It has more tokens if the processor enlarges small pictures.
    """
    unit = images.patch_size * images.merge_size if hasattr(images, "merge_size") else UNIT
    pixels = torch.randint(256, (side * unit, (side + 1) * unit, 3), generator=draw)
    return Image.fromarray(pixels.to(torch.uint8).numpy())


def _shown(processor: Any, picture: Image.Image) -> Tensor:
    """Return a picture's placeholders, with the marks that the family's template puts around it."""
    message = {"role": "user", "content": [{"type": "image"}]}
    text = processor.apply_chat_template([message], tokenize=False)
    ids = processor(text=[text], images=[picture], return_tensors="pt")["input_ids"][0]
    places = (ids == processor.image_token_id).nonzero()[:, 0].tolist()
    return ids[places[0] - 1 : places[-1] + 2]


def _words(processor: Any, count: int, draw: torch.Generator) -> Tensor:
    tokenizer = getattr(processor, "tokenizer", processor)
    words = sorted(set(range(len(tokenizer))) - set(tokenizer.added_tokens_decoder))
    return torch.tensor(words)[torch.randint(len(words), (count,), generator=draw)]


def as_batch(rows: list[ShownRow], processor: Any) -> TensorDict:
    """Return the batch of a worker, in verl's layout, with the fields that the plugin stores.

    `processor` has the `get_rope_index` that verl adds; for a text-only model it is a tokenizer.
    """
    shown = [_stored(row, processor) for row in rows]
    known = processor if hasattr(processor, "image_processor") else None
    positions = [
        position_ids(row.ids, fields, known) for row, fields in zip(rows, shown, strict=True)
    ]
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
    data["position_ids"] = (
        tu.nested_tensor_from_tensor_list(positions) if several else nested(positions)
    )
    if known is not None:
        data["multi_modal_inputs"] = NonTensorStack(*shown)
    tu.assign_non_tensor(data, temperature=TEMPERATURE, pad_token_id=0)
    return data


def _stored(row: ShownRow, processor: Any) -> dict[str, Tensor]:
    """Return a row's images as the plugin sends them: patches as bytes, or features of images."""
    if not row.pictures:
        return {}
    images = processor.image_processor
    layout = PatchFormat.of(images)
    if layout is None:
        return whole_features(row.pictures, processor)
    return join_patches([_encoded(picture, images, layout) for picture in row.pictures])


def _encoded(picture: Image.Image, images: Any, layout: PatchFormat) -> EncodedImage:
    content = hashlib.sha256(picture.tobytes()).hexdigest()
    ref = ImageRef(PageRef("picture", 1), content, (0, 0, *picture.size), picture.size)
    return EncodedImage.make(ref, picture, images, layout)
