"""Vector indexes that a demo needs in addition to BM25, and the tiny model that makes one."""

from pathlib import Path
from typing import Any

import yaml

from docagent_rl.base.io import atomic_write
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.encoders.spec import SPEC_FILE, ArchitectureFamily
from docagent_rl.retrieval.indexes import build_vectors

_PIXELS = 64 * 28 * 28
"""Pixels of a page as shown to the tiny model: 64 patches."""


def place_of(config: RetrieverConfig, paths: DemoPaths) -> Path:
    """Return the path at which the demo creates the index of a retriever."""
    if config.model is None:
        return paths.index
    return paths.index_of(
        Path(config.model).name.split("-v")[0].replace(".", "_").replace("-", "_")
    )


def make_index(config: RetrieverConfig, paths: DemoPaths) -> None:
    """Create a retriever's index at `place_of` if missing, and its model too if that is the tiny
    one.

    Raises:
        UserError: the model is missing, or the path contains another index.
    """
    assert config.model is not None
    assert config.index is not None
    model = Path(config.model)
    if model == paths.models / "tiny_colqwen2" and not (model / SPEC_FILE).is_file():
        make_retriever(model)
    build_vectors(DocumentStore(paths.store), config.index, config.model)


def make_retriever(folder: Path, seed: int = 0) -> None:
    """Write a tiny ColQwen2 with random weights, which ranks pages at random, and its
    specification.
    """
    import torch
    from colpali_engine.models import ColQwen2

    from docagent_rl.lab.tiny.model import initialise

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, config = qwen2_vl()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ColQwen2(config).eval()
    initialise(model, seed)
    model.save_pretrained(folder)
    qwen2_vl_processor(tokenizer).save_pretrained(folder)
    spec = {"family": ArchitectureFamily.COLQWEN2.value, "content": "image", "max_pixels": _PIXELS}
    atomic_write(folder / SPEC_FILE, yaml.safe_dump(spec))


def qwen2_vl() -> tuple[Any, Any]:
    """Return a tokenizer, and the configuration of a tiny Qwen2-VL."""
    from transformers import Qwen2VLConfig

    from docagent_rl.lab.tiny.shapes import tiny_config
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    like = tiny_config(tokenizer)
    text = like.text_config.to_dict()
    for name in ("model_type", "dtype", "architectures"):
        text.pop(name, None)
    vision = {
        "depth": 2,
        "embed_dim": 96,
        "hidden_size": 128,
        "num_heads": 3,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    ids = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    config = Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=True,
        **{name: getattr(like, name) for name in ids},
    )
    return tokenizer, config


def qwen2_vl_processor(tokenizer: Any) -> Any:
    """Return Qwen2-VL's processor with a given tokenizer."""
    from transformers import Qwen2VLProcessor

    from docagent_rl.lab.tiny.shapes import build_processor

    like = build_processor(tokenizer)
    return Qwen2VLProcessor(
        image_processor=like.image_processor,
        tokenizer=tokenizer,
        video_processor=like.video_processor,
        chat_template=like.chat_template,
    )
