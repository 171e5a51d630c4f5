"""The processor of the tiny checkpoint: Qwen2.5-VL's classes and settings around the small tokenizer."""

from __future__ import annotations

from transformers import Qwen2_5_VLProcessor, Qwen2Tokenizer, Qwen2VLImageProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

from docagent_rl.lab.tiny.model import MERGE_SIZE, PATCH_SIZE
from docagent_rl.lab.tiny.template import CHAT_TEMPLATE

MIN_PIXELS = 56 * 56
MAX_PIXELS = 12_845_056
"""Limits of the released checkpoints; a smaller budget for a page is the environment's business."""


def build_processor(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLProcessor:
    """Return the processor; one visual token covers 28 by 28 pixels of the resized image."""
    image_processor = Qwen2VLImageProcessor(
        size={"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS},
        patch_size=PATCH_SIZE,
        merge_size=MERGE_SIZE,
        temporal_patch_size=2,
    )
    video_processor = Qwen2VLVideoProcessor(
        size={"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS},
        patch_size=PATCH_SIZE,
        merge_size=MERGE_SIZE,
        temporal_patch_size=2,
    )
    return Qwen2_5_VLProcessor(
        image_processor=image_processor,
        tokenizer=tokenizer,
        video_processor=video_processor,
        chat_template=CHAT_TEMPLATE,
    )
