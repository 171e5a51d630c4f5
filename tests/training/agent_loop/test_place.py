from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import CAPACITY, EncodedImage, cores
from docagent_rl.rollout.patches import PatchFormat
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput, RowImages
from docagent_rl.training.agent_loop.place import TOKEN_BYTES, image_bytes, place_of, session_bytes

GIB = 1 << 30
LAYOUT = PatchFormat(14, 2, 2, (0.0,) * 3, (1.0,) * 3)


def run(**rollout):
    return OmegaConf.create({"docagent": {"rollout": rollout}})


@pytest.mark.parametrize("on_node", [1, max(1, cores() // 4)])
def test_the_workers_of_a_node_share_its_cores(on_node):
    place = place_of(run(), workers=8, on_node=on_node, capacity=80, shelf=None)
    assert place.images.threads == max(2, cores() // on_node)
    assert place.images.capacity == 10
    config = run(image_threads=5, session_memory_mb=1)
    place = place_of(config, workers=1, on_node=on_node, capacity=10, shelf=None)
    assert place.images.threads == 5
    assert place.admission._budget == 1 << 20


def test_a_third_of_the_store_is_for_images():
    assert image_bytes(run(), store=300 * GIB) == 100 * GIB
    assert image_bytes(run(), store=GIB) == CAPACITY
    assert image_bytes(run(image_cache_mb=16), store=300 * GIB) == 16 << 20


def test_a_session_takes_its_images_and_its_tokens():
    refs = [ImageRef(PageRef("doc", n), f"h{n}", (0, 0, 56, 28), (56, 28)) for n in (1, 2)]
    patches, grid = torch.zeros(8, 588, dtype=torch.uint8), torch.tensor([[1, 2, 4]])
    images = RowImages(tuple(EncodedImage(ref, patches.clone(), grid, LAYOUT) for ref in refs))
    plain = {"prompt_ids": [1, 2], "response_ids": [3, 4, 5], "response_mask": [1, 1, 1]}
    rows = [
        DocAgentLoopOutput(**plain, multi_modal_data={IMAGES: each}, metrics=AgentLoopMetrics())
        for each in (RowImages(()), images)
    ]
    assert session_bytes(rows) == 10 * TOKEN_BYTES + 2 * 2 * 8 * 588
