"""Make batches in the layout that verl's V1 trainer passes to its workers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack
from torch import Tensor
from transformers import Qwen2_5_VLConfig
from verl.utils import tensordict_utils as tu

PATCH = 3 * 2 * 14 * 14
"""Numbers in a patch: channels times frames times height times width."""


@dataclass(frozen=True)
class Row:
    """The lengths of a row, in tokens.

    Attributes:
        prompt: tokens of the prompt.
        text: text tokens of the response.
        images: number of images in the response, each of size `grid`.
        grid: height and width of an image in patches; four patches are one token.
    """

    prompt: int
    text: int
    images: int = 0
    grid: tuple[int, int] = (8, 12)

    @property
    def image_tokens(self) -> int:
        """The number of visual tokens of one image."""
        return self.grid[0] * self.grid[1] // 4

    @property
    def tokens(self) -> int:
        """The number of tokens of the row."""
        return self.prompt + self.text + self.images * (self.image_tokens + 2)


ROWS = [Row(9, 40, 2), Row(5, 83), Row(14, 31), Row(3, 60, 1, (16, 4))]
"""Rows with and without images."""


def nested(rows: list[Tensor]) -> Tensor:
    """Return rows of different lengths as one nested tensor."""
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def make_batch(rows: list[Row], config: Qwen2_5_VLConfig, seed: int = 0) -> TensorDict:
    """Return a batch of random tokens and pixels; text tokens of responses count as sampled.

    Args:
        rows: the lengths of each row.
        config: the model's configuration; its special tokens are not drawn.
        seed: the seed of everything random.
    """
    draw = torch.Generator().manual_seed(seed)
    begin = config.vision_start_token_id
    image = config.image_token_id
    end = config.vision_end_token_id
    words = 1 + max(begin, image, end, config.video_token_id), config.text_config.vocab_size
    prompts = []
    responses = []
    masks = []
    positions = []
    pictures = []
    noise = []
    for row in rows:
        prompts.append(_words(row.prompt, words, draw))
        first = _words(row.text // 2, words, draw)
        rest = _words(row.text - row.text // 2, words, draw)
        shown = torch.tensor([begin] + [image] * row.image_tokens + [end])
        responses.append(torch.cat([first, *[shown] * row.images, rest]))
        masks.append(torch.cat([first > 0, *[shown < 0] * row.images, rest > 0]).long())
        positions.append(_positions(row))
        noise.append(torch.randn(len(responses[-1]), generator=draw))
        height, width = row.grid
        pixels = torch.randn(height * width * row.images, PATCH, generator=draw)
        grid = torch.tensor([[1, height, width]] * row.images)
        pictures.append({"pixel_values": pixels, "image_grid_thw": grid} if row.images else {})
    columns = {
        "input_ids": [torch.cat(pair) for pair in zip(prompts, responses, strict=True)],
        "prompts": prompts,
        "responses": responses,
        "response_mask": masks,
        "loss_mask": masks,
        "noise": noise,
    }
    data = TensorDict({key: nested(value) for key, value in columns.items()}, batch_size=len(rows))
    data["position_ids"] = tu.nested_tensor_from_tensor_list(positions)
    data["multi_modal_inputs"] = NonTensorStack(*pictures)
    tu.assign_non_tensor(data, temperature=1.0, pad_token_id=0)
    return data


def _words(count: int, words: tuple[int, int], draw: torch.Generator) -> Tensor:
    return torch.randint(words[0], words[1], (count,), generator=draw)


def _positions(row: Row) -> Tensor:
    """Return (4, tokens): text positions, then time, height and width as Qwen2.5-VL counts them."""
    height = row.grid[0] // 2
    width = row.grid[1] // 2
    cell = torch.arange(height * width)
    image = torch.stack([cell * 0, cell // width, cell % width])
    before = row.prompt + row.text // 2
    after = row.text - row.text // 2
    parts = [torch.arange(before).expand(3, -1)]
    start = before
    for _ in range(row.images):
        side = max(height, width)
        parts += [
            torch.full((3, 1), start),
            image + start + 1,
            torch.full((3, 1), start + side + 1),
        ]
        start += side + 2
    parts.append(torch.arange(start, start + after).expand(3, -1))
    return torch.cat([torch.arange(row.tokens).expand(1, -1), torch.cat(parts, dim=1)]).contiguous()
