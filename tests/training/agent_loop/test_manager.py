"""The agent loop's worker stores a row's images and its trajectory."""

import gc
import types

import pytest
import torch
from PIL import Image
from transformers import Qwen2_5_VLModel
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.patches import PATCHES
from docagent_rl.training.agent_loop import manager
from docagent_rl.training.agent_loop.loop import validating
from docagent_rl.training.agent_loop.manager import DocAgentLoopWorker
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput, RowImages
from docagent_rl.training.serving.image_cache import NAMES


@pytest.fixture(scope="module")
def worker(processor):
    processor.config = tiny_config(processor.tokenizer)
    processor.get_rope_index = types.MethodType(Qwen2_5_VLModel.get_rope_index, processor)
    processor.get_vision_position_ids = types.MethodType(
        Qwen2_5_VLModel.get_vision_position_ids, processor
    )
    made = object.__new__(DocAgentLoopWorker)
    made.processor = processor
    return made


@pytest.fixture(scope="module")
def output(processor):
    size = (140, 112)
    ref = ImageRef(PageRef("doc", 1), "hash", (0, 0, *size), size)
    image = EncodedImage.make(ref, Image.new("RGB", size, "red"), processor.image_processor)
    return DocAgentLoopOutput(
        prompt_ids=[1, *[processor.image_token_id] * image.num_tokens, 2],
        response_ids=[3],
        response_mask=[1],
        multi_modal_data={IMAGES: RowImages((image,))},
        metrics=AgentLoopMetrics(),
    )


def stored(worker, output):
    """Store as verl's `_agent_loop_postprocess` does: the row's images, then its positions."""
    ids = torch.tensor(output.prompt_ids + output.response_ids)
    row = worker._compute_multi_modal_inputs(output, ids)
    positions = worker._compute_position_ids(ids[None], torch.ones_like(ids)[None], row)
    return row, positions


def test_a_row_carries_bytes_and_one_of_a_validation_the_same_positions_alone(worker, output):
    row, positions = stored(worker, output)
    assert row[PATCHES].dtype == torch.uint8
    assert row["images_seqlens"].tolist() == [80]
    assert "pixel_values" not in row
    assert positions.shape == (1, 4, 23)
    token = validating.set(True)
    row, same = stored(worker, output)
    validating.reset(token)
    assert row == {}
    assert torch.equal(same, positions)


async def test_a_row_names_its_images_once_the_trainer_releases_them(worker, output):
    (image,) = output.multi_modal_data[IMAGES].images
    images = RowImages(
        (EncodedImage(image.ref, image.patches, image.grid, image.layout, "handle"),)
    )
    cached = output.model_copy(update={"multi_modal_data": {IMAGES: images}})
    held, positions = stored(worker, cached)
    assert PATCHES in held
    await worker.name_images("directory")
    try:
        row, same = stored(worker, cached)
        assert row[NAMES] == ("directory", image.key)
        assert PATCHES not in row
        assert torch.equal(same, positions)
        assert row["images_seqlens"].tolist() == held["images_seqlens"].tolist()
        assert PATCHES in stored(worker, output)[0]  # it lies in no image cache
        token = validating.set(True)
        assert stored(worker, cached)[0] == {}
        validating.reset(token)
    finally:
        worker._directory = None


async def test_collections_of_garbage_leave_out_what_a_worker_has_loaded(worker, monkeypatch):
    gauges = types.SimpleNamespace(watch_loop=lambda: None)
    resources = types.SimpleNamespace(gauges=gauges, admission=None)
    monkeypatch.setattr(manager, "worker_resources", lambda *_, **__: resources)
    monkeypatch.setattr(worker, "config", None, raising=False)
    client = types.SimpleNamespace(_acquire_server=None)
    monkeypatch.setattr(worker, "llm_client", client, raising=False)
    monkeypatch.setattr(worker, "_resources", None)
    try:
        await worker.set_up(workers=1, on_node=1, capacity=1, directory=None)
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()
