"""A small byte-level BPE tokenizer of Qwen's class, and encoding of conversations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

from docagent_rl.lab.tiny.corpus import sentences
from docagent_rl.rollout.images import image_tokens, marks, merges, whole_features

END_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|im_end|>"
IMAGE_TOKEN = "<|image_pad|>"
VIDEO_TOKEN = "<|video_pad|>"
VISION_START = "<|vision_start|>"
VISION_END = "<|vision_end|>"

SPECIAL_TOKENS = (
    END_OF_TEXT,
    "<|im_start|>",
    END_OF_TURN,
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    VISION_START,
    VISION_END,
    "<|vision_pad|>",
    IMAGE_TOKEN,
    VIDEO_TOKEN,
)
"""The special tokens of Qwen2.5-VL, in its order."""

BPE_VOCABULARY = 1350
"""Number of ordinary tokens: 256 bytes plus the merges."""

MAX_LENGTH = 32_768

CHAT_TEMPLATE = """\
{#- Every turn is `<|im_start|>role, newline, content, <|im_end|>, newline`. -#}
{%- set seen = namespace(images=0) -%}
{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message['role'] ~ '\\n' -}}
    {%- if message['content'] is string -%}
        {{- message['content'] -}}
    {%- else -%}
        {%- for part in message['content'] -%}
            {%- if part['type'] == 'image' or 'image' in part -%}
                {%- set seen.images = seen.images + 1 -%}
                {%- if add_vision_id -%}
                    {{- 'Picture ' ~ seen.images ~ ': ' -}}
                {%- endif -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif 'text' in part -%}
                {{- part['text'] -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
"""Jinja source. Images become their placeholder between `<|vision_start|>` and `<|vision_end|>`;
`add_vision_id=True` numbers them; `add_generation_prompt=True` opens the assistant's turn."""


def build_tokenizer(
    texts: Iterable[str] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    attributes: Mapping[str, str] = MappingProxyType({}),
) -> Qwen2Tokenizer:
    """Return the tokenizer; the same texts give the same one, since corpus and training are
    deterministic.

    Its merges are learnt from the built-in corpus and from `texts`, so that the words of known
    prompts take few tokens. `names` are a family's own names of special tokens by Qwen's names,
    applied to the template too. `attributes` are special tokens by the attribute of the tokenizer
    that a family's processor reads; such a processor writes the marks around an image itself.
    `len(tokenizer)` is `BPE_VOCABULARY + len(SPECIAL_TOKENS)`; ids run from 0 without gaps.
    """
    vocabulary, merges = _train(texts)
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        # transformers accepts both pairs and a missing unknown token, but does not declare it
        merges=merges,  # ty: ignore[invalid-argument-type]
        unk_token=None,  # ty: ignore[invalid-argument-type]
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        extra_special_tokens=[
            names.get(token, token)
            for token in SPECIAL_TOKENS
            if token not in (END_OF_TEXT, END_OF_TURN)
        ],
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )
    template = CHAT_TEMPLATE
    if attributes:
        tokenizer._set_model_specific_special_tokens(special_tokens=dict(attributes))
        template = template.replace(VISION_START, "").replace(VISION_END, "")
    for token, name in names.items():
        template = template.replace(token, name)
    tokenizer.chat_template = template
    return tokenizer


def _train(texts: Iterable[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Learn the merges with Qwen2's normaliser and pre-tokeniser."""
    reference = Qwen2Tokenizer().backend_tokenizer
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = reference.normalizer
    bpe.pre_tokenizer = reference.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=BPE_VOCABULARY,
        min_frequency=2,
        special_tokens=[],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(chain(sentences(), texts), trainer)
    model = json.loads(bpe.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


Conversation = Sequence[dict[str, Any]]
"""Chat messages `{"role", "content"}`; content is a string or a list of text and image parts, where
an image part is `{"type": "image", "image": PIL.Image.Image}`. The assistant's content is a string.
"""


@dataclass(frozen=True)
class Example:
    """One encoded conversation of `t` tokens, with `i` images that have `p` patches altogether."""

    input_ids: torch.Tensor
    """(t,) int64; an image takes one placeholder token per visual token."""

    is_image: torch.Tensor
    """(t,) int64, 1 on placeholder tokens: the processor's `mm_token_type_ids`."""

    supervised: torch.Tensor
    """(t,) bool, true on what the assistant wrote, including its end of turn."""

    vision: Mapping[str, torch.Tensor]
    """Image tensors for the model; the first dimension counts images or patches. Empty without
    images.
    """

    def shortened(self, context: int) -> Example:
        """Return the example without images, and with at most `context` tokens before the first
        turn.

        The tokens that open and close an image stay, so that its position is still visible. Images
        and instructions make up most of a conversation, but teach nothing about the form of a turn.
        """
        start = max(0, int(self.supervised.nonzero()[0]) - context)
        kept = ~self.is_image.bool()
        kept[:start] = False
        return Example(
            input_ids=self.input_ids[kept],
            is_image=self.is_image[kept],
            supervised=self.supervised[kept],
            vision={},
        )


def encode(conversation: Conversation, processor: Any) -> Example:
    """Encode a conversation that ends with an assistant turn.

    Each assistant turn is tokenised separately from its surroundings, as in a rollout, where the
    model's own tokens follow the generation prompt.
    """
    # for a text-only model the processor is the tokenizer
    tokenizer = getattr(processor, "tokenizer", processor)
    pictures = [
        part["image"]
        for message in conversation
        if not isinstance(message["content"], str)
        for part in message["content"]
        if "image" in part
    ]
    vision, shown = _images(pictures, processor)
    ids: list[int] = []
    supervised: list[bool] = []
    image = getattr(processor, "image_token_id", -1)
    for text, is_supervised in _segments(conversation, tokenizer):
        for token in tokenizer.encode(text, add_special_tokens=False):
            tokens = next(shown) if token == image else [token]
            ids.extend(tokens)
            supervised.extend([is_supervised] * len(tokens))
    input_ids = torch.tensor(ids)
    return Example(
        input_ids=input_ids,
        is_image=(input_ids == image).long(),
        supervised=torch.tensor(supervised),
        vision=vision,
    )


def _images(
    pictures: Sequence[Image.Image], processor: Any
) -> tuple[Mapping[str, torch.Tensor], Iterator[list[int]]]:
    """Return the features of all images, and an iterator over the tokens of each."""
    if not pictures:
        return {}, iter(())
    token = processor.image_token_id
    before = ()
    after = ()
    if merges(processor.image_processor):
        vision = processor.image_processor(images=pictures, return_tensors="pt")
    else:
        vision = whole_features(pictures, processor)
        before, after = marks(processor)
    sizes = image_tokens([picture.size for picture in pictures], processor)
    return vision, ([*before, *[token] * size, *after] for size in sizes)


def _segments(conversation: Conversation, tokenizer: Any) -> Iterator[tuple[str, bool]]:
    """Split the templated text into pieces, with True for those that the assistant wrote."""
    done = ""
    for index, message in enumerate(conversation):
        if message["role"] != "assistant":
            continue
        before = tokenizer.apply_chat_template(
            list(conversation[:index]), tokenize=False, add_generation_prompt=True
        )
        written = message["content"] + END_OF_TURN
        yield before[len(done) :], False
        yield written, True
        done = before + written
