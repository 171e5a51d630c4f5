"""A small byte-level BPE tokenizer with the class, splitting rule and special tokens of Qwen2.5-VL's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

from docagent_rl.lab.tiny.corpus import sentences

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
"""Number of ordinary tokens: 256 bytes and the merges."""

MAX_LENGTH = 32_768

CHAT_TEMPLATE = """\
{#- Every turn is `<|im_start|>role, newline, content, <|im_end|>, newline`. -#}
{%- set seen = namespace(images=0, videos=0) -%}
{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message['role'] ~ '\\n' -}}
    {%- if message['content'] is string -%}
        {{- message['content'] -}}
    {%- else -%}
        {%- for part in message['content'] -%}
            {%- if part['type'] == 'image' or 'image' in part or 'image_url' in part -%}
                {%- set seen.images = seen.images + 1 -%}
                {%- if add_vision_id -%}
                    {{- 'Picture ' ~ seen.images ~ ': ' -}}
                {%- endif -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part['type'] == 'video' or 'video' in part -%}
                {%- set seen.videos = seen.videos + 1 -%}
                {%- if add_vision_id -%}
                    {{- 'Video ' ~ seen.videos ~ ': ' -}}
                {%- endif -%}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
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
"""Jinja source. Images and videos become their placeholder between `<|vision_start|>` and `<|vision_end|>`;
`add_vision_id=True` numbers them; `add_generation_prompt=True` opens the assistant's turn."""


def build_tokenizer(texts: Iterable[str] = ()) -> Qwen2Tokenizer:
    """Return the tokenizer; the same for the same texts, since corpus and trainer are deterministic.

    Its merges come from the built-in corpus and from `texts`, so that words of known prompts are few tokens.
    `len(tokenizer)` is `BPE_VOCABULARY + len(SPECIAL_TOKENS)`; ids run from 0 without holes.
    """
    vocabulary, merges = _train(texts)
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        # pairs, and no token for what is unknown, both of which transformers takes and does not declare
        merges=merges,  # ty: ignore[invalid-argument-type]
        unk_token=None,  # ty: ignore[invalid-argument-type]
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        extra_special_tokens=[token for token in SPECIAL_TOKENS if token not in (END_OF_TEXT, END_OF_TURN)],
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _train(texts: Iterable[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Learn the merges under Qwen2's normaliser and splitting rule."""
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
