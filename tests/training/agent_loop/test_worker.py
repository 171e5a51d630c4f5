"""The agent loop's worker stores a row's images and its trajectory."""

import gc
import threading
import types

import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image
from transformers import Qwen2_5_VLModel
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.patches import PATCHES
from docagent_rl.training.agent_loop import worker as agent_worker
from docagent_rl.training.agent_loop.loop import validating
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput, RowImages
from docagent_rl.training.agent_loop.worker import DocAgentLoopWorker
from docagent_rl.training.compact_positions import expand_positions
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
    assert expand_positions(positions[0]).shape == (4, 23)
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
    monkeypatch.setattr(agent_worker, "worker_resources", lambda *_, **__: resources)
    monkeypatch.setattr(
        worker,
        "config",
        OmegaConf.create({"actor_rollout_ref": {"rollout": {"name": "vllm"}, "model": {}}}),
        raising=False,
    )
    client = types.SimpleNamespace(_acquire_server=None)
    monkeypatch.setattr(worker, "llm_client", client, raising=False)
    monkeypatch.setattr(worker, "_resources", None)
    try:
        await worker.set_up(workers=1, on_node=1, capacity=1, directory=None)
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()


def finished(worker, output):
    """Return a copy of a row that a worker has finished in its thread."""
    row = output.model_copy()
    worker._finish([row])
    return row


def test_a_finished_row_is_stored_as_any_other(worker, output):
    row = output.model_copy(
        update={
            "response_ids": [3, 4],
            "response_mask": [1, 0],
            "response_logprobs": [-0.5, 0.0],
            "turn_index": [0, -1],
            "token_rewards": [1.5, 0.0],
            "reward_score": 1.5,
        }
    )
    expected = AgentLoopOutput.as_dict(row)
    inputs, positions = stored(worker, row)
    same_inputs, same_positions = stored(worker, finished(worker, row))
    assert torch.equal(same_positions, positions)
    assert same_inputs.keys() == inputs.keys()
    assert all(torch.equal(same_inputs[name], inputs[name]) for name in inputs)

    fields = finished(worker, row).as_dict()
    assert fields.pop("rm_scores").tolist() == [1.5, 0.0]
    assert fields.pop("turn_index").tolist() == [0, -1]
    for name in ("turn_index", "token_rewards", "rm_scores"):
        expected.pop(name, None)
    tensors = {name for name, value in expected.items() if isinstance(value, torch.Tensor)}
    assert tensors == {"prompts", "responses", "response_mask", "rollout_log_probs"}
    for name, value in expected.items():
        if name in tensors:
            assert fields[name].dtype == value.dtype
            assert torch.equal(fields[name], value), name
        else:
            assert fields[name] == value, name


async def test_rows_are_finished_outside_of_the_event_loop(worker, output, monkeypatch):
    threads = []
    finish = worker._finish
    monkeypatch.setattr(
        worker,
        "_finish",
        lambda rows: (threads.append(threading.current_thread().name), finish(rows)),
        raising=False,
    )

    async def verls(self, rows, validate, **kwargs):
        assert [row.inputs is None for row in rows] == [False]

    monkeypatch.setattr(agent_worker._Worker, "_agent_loop_postprocess", verls)
    row = output.model_copy()
    await worker._agent_loop_postprocess([row], False, uid="a", session_id=0)
    assert [name.startswith("docagent-finishing") for name in threads] == [True]
