import os

import pytest
import torch
from PIL import Image

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import EncodedImage

SIZES = [(140, 112), (84, 196), (280, 56)]


def reference(number: int, size: tuple[int, int]) -> ImageRef:
    return ImageRef(PageRef("doc", number + 1), f"hash-{number}", (0, 0, *size), size)


@pytest.fixture(scope="session")
def pictures():
    generator = torch.Generator().manual_seed(3)
    shapes = [(high, wide, 3) for wide, high in SIZES]
    return [
        Image.fromarray(torch.randint(0, 256, s, generator=generator, dtype=torch.uint8).numpy())
        for s in shapes
    ]


@pytest.fixture(scope="session")
def encoded(pictures, processor):
    return [
        EncodedImage.make(reference(n, picture.size), picture, processor.image_processor)
        for n, picture in enumerate(pictures)
    ]


@pytest.fixture(scope="session")
def front_end(tmp_path_factory, processor):
    """Return vLLM's own front end of a tiny Qwen2.5-VL, without an engine behind it."""
    return open_front_end(tmp_path_factory.mktemp("model"), processor, "qwen2_5_vl")


def open_front_end(folder, processor, family):
    """Return vLLM's front end of the tiny model of a family."""
    from docagent_rl.lab.tiny.shapes import get_shape, tiny_config

    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    import verl  # noqa: F401  the plugin makes vLLM find its platform
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.input_processor import InputProcessor

    config = tiny_config(processor.tokenizer, family)
    config.architectures = [f"{get_shape(family).prefix}ForConditionalGeneration"]
    config.save_pretrained(folder)
    processor.save_pretrained(folder)
    arguments = AsyncEngineArgs(
        model=str(folder), dtype="bfloat16", max_model_len=4096, enforce_eager=True
    )
    return InputProcessor(arguments.create_engine_config())
