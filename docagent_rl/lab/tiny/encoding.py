"""A conversation as the tokens, images and loss mask on which the tiny model is warmed up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from transformers import Qwen2_5_VLProcessor

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.tokenizer import END_OF_TURN

Conversation = Sequence[dict[str, Any]]
"""Chat messages `{"role", "content"}`; content is a string or a list of text and image parts, where an image
part is `{"type": "image", "image": PIL.Image.Image}`, or a placeholder `{"type": "image"}` for a blank page.
The assistant's content is a string."""

BLANK_PAGE_SIZE = (112, 140)
"""Width and height in pixels of the page that a placeholder stands for."""


@dataclass(frozen=True)
class Example:
    """One encoded conversation of `t` tokens with `i` images and `p` patches in all."""

    input_ids: torch.Tensor
    """(t,) int64; each image is as many placeholder tokens as it has visual tokens."""

    is_image: torch.Tensor
    """(t,) int64, 1 on placeholder tokens: the processor's `mm_token_type_ids`."""

    supervised: torch.Tensor
    """(t,) bool, true on what the assistant wrote, its end of turn included."""

    pixel_values: torch.Tensor | None
    """(p, 1176) float32, or None without images."""

    image_grid_thw: torch.Tensor | None
    """(i, 3) int64, or None without images."""

    def shortened(self, context: int) -> Example:
        """Return the example without its images and with at most `context` tokens before the first turn.

        The tokens that open and close an image stay, so that it still shows where one was. Images and
        instructions are most of a conversation and teach nothing about the form of a turn.
        """
        start = max(0, int(self.supervised.nonzero()[0]) - context)
        kept = ~self.is_image.bool()
        kept[:start] = False
        return Example(
            input_ids=self.input_ids[kept],
            is_image=self.is_image[kept],
            supervised=self.supervised[kept],
            pixel_values=None,
            image_grid_thw=None,
        )


def encode(conversation: Conversation, processor: Qwen2_5_VLProcessor) -> Example:
    """Encode a conversation that ends with an assistant turn.

    Each assistant turn is tokenised apart from its surroundings, as a rollout sees it: the model's own tokens
    follow the generation prompt.

    Raises:
        UserError: the conversation does not end with an assistant turn, an assistant turn is no string, or
            a text holds the image placeholder token.
    """
    _validate_turns(conversation, processor.image_token)
    pictures = list(images_of(conversation))
    vision = processor.image_processor(images=pictures, return_tensors="pt") if pictures else {}
    sizes = _visual_tokens(vision, processor)
    ids: list[int] = []
    supervised: list[bool] = []
    for text, is_supervised in _segments(conversation, processor):
        for token in processor.tokenizer.encode(text, add_special_tokens=False):
            repeats = next(sizes) if token == processor.image_token_id else 1
            ids.extend([token] * repeats)
            supervised.extend([is_supervised] * repeats)
    input_ids = torch.tensor(ids)
    return Example(
        input_ids=input_ids,
        is_image=(input_ids == processor.image_token_id).long(),
        supervised=torch.tensor(supervised),
        pixel_values=vision.get("pixel_values"),
        image_grid_thw=vision.get("image_grid_thw"),
    )


def images_of(conversation: Conversation) -> Iterator[Image.Image]:
    """Yield the images of a conversation in the order of its placeholders.

    Raises:
        UserError: what an image part holds under "image" is no PIL image.
    """
    for message in conversation:
        if isinstance(message["content"], str):
            continue
        for part in message["content"]:
            if part.get("type") != "image" and "image" not in part:
                continue
            image = part["image"] if "image" in part else Image.new("RGB", BLANK_PAGE_SIZE, "white")
            if not isinstance(image, Image.Image):
                raise UserError(
                    f'an image part of a warm-up conversation needs a PIL image under "image", not {image!r}'
                )
            yield image


def _validate_turns(conversation: Conversation, placeholder: str) -> None:
    if not conversation or conversation[-1]["role"] != "assistant":
        raise UserError("a warm-up conversation must end with an assistant turn; append one or drop it")
    for index, message in enumerate(conversation):
        content = message["content"]
        if message["role"] == "assistant" and not isinstance(content, str):
            raise UserError(f"message {index} of a warm-up conversation: assistant content must be a string")
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        if any(placeholder in text for text in texts):
            raise UserError(f"message {index} of a warm-up conversation has {placeholder} in its text")


def _visual_tokens(vision: dict, processor: Qwen2_5_VLProcessor) -> Iterator[int]:
    """Yield the number of visual tokens of each image."""
    if "image_grid_thw" not in vision:
        return iter(())
    return iter((vision["image_grid_thw"].prod(-1) // processor.image_processor.merge_size**2).tolist())


def _segments(conversation: Conversation, processor: Qwen2_5_VLProcessor) -> Iterator[tuple[str, bool]]:
    """Cut the templated text into pieces that the assistant wrote (True) and that it did not (False)."""
    done = ""
    for index, message in enumerate(conversation):
        if message["role"] != "assistant":
            continue
        before = processor.tokenizer.apply_chat_template(
            list(conversation[:index]), tokenize=False, add_generation_prompt=True
        )
        written = message["content"] + END_OF_TURN
        yield before[len(done) :], False
        yield written, True
        done = before + written
