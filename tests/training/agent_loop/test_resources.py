"""The trajectories of a worker share places, memory and cores, and the worker reports on them."""

import asyncio

import pytest
import torch
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import CAPACITY, EncodedImage, cores
from docagent_rl.rollout.patches import PatchFormat
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput, RowImages
from docagent_rl.training.agent_loop.resources import (
    FIRST,
    TOKEN_BYTES,
    Admission,
    image_bytes,
    trajectory_bytes,
    worker_resources,
)

GIB = 1 << 30
LAYOUT = PatchFormat(14, 2, 2, (0.0,) * 3, (1.0,) * 3)


class Play:
    """Trajectories that need `nbytes` each and end when they are told to."""

    def __init__(self, budget, nbytes):
        self.admission, self.nbytes = Admission(budget), nbytes
        self.end, self.most, self.begun = asyncio.Event(), 0, []

    async def trajectory(self, number):
        async with self.admission.trajectory():
            self.begun.append(number)
            self.most = max(self.most, self.admission.playing)
            await self.end.wait()
            self.admission.weigh(self.nbytes)

    async def start(self, *numbers):
        tasks = [asyncio.create_task(self.trajectory(number)) for number in numbers]
        for _ in range(5):
            await asyncio.sleep(0)
        return tasks

    @property
    def counts(self):
        return self.admission.playing, self.admission.waiting


async def measured(budget, nbytes):
    """Return an admission that has seen one trajectory."""
    play = Play(budget, nbytes)
    play.end.set()
    await play.trajectory(0)
    play.end.clear()
    return play


@pytest.mark.parametrize(("nbytes", "places"), [(25, 4), (500, 1)])
async def test_a_trajectory_counts_for_the_largest_so_far(nbytes, places):
    play = await measured(100, nbytes)
    assert play.admission.places == places
    tasks = await play.start(*range(1, 11))
    assert play.counts == (places, 10 - places)
    play.end.set()
    await asyncio.gather(*tasks)
    assert play.most == places
    assert play.begun == list(range(11))  # in order
    assert play.counts == (0, 0)


async def test_before_any_has_ended_some_play_and_one_that_ends_early_leaves_its_place():
    play = Play(1, 1)
    tasks = await play.start(*range(FIRST + 8))
    assert play.counts == (FIRST, 8)
    tasks[0].cancel()
    await play.start()
    assert play.counts == (FIRST, 7)
    play.end.set()
    await asyncio.gather(*tasks[1:])
    assert play.counts == (0, 0)


async def test_one_that_is_cancelled_with_its_place_in_hand_gives_it_back():
    play = await measured(10, 10)
    play.end.set()
    before = play.admission.trajectory()
    await before.__aenter__()
    second, third = await play.start(2, 3)
    await before.__aexit__(None, None, None)  # lets the second in, which has not run since
    assert play.counts == (1, 1)
    second.cancel()
    await third
    assert play.begun == [0, 3]
    assert play.counts == (0, 0)


def run(**rollout):
    return OmegaConf.create({"docagent": {"rollout": rollout}})


@pytest.mark.parametrize("on_node", [1, max(1, cores() // 4)])
def test_the_workers_of_a_node_share_its_cores(on_node):
    found = worker_resources(run(), workers=8, on_node=on_node, capacity=80, image_cache=None)
    assert found.images.threads == max(2, cores() // on_node)
    assert found.images.capacity == 10
    config = run(image_threads=5, trajectory_memory_mb=1)
    found = worker_resources(config, workers=1, on_node=on_node, capacity=10, image_cache=None)
    assert found.images.threads == 5
    assert found.admission._budget == 1 << 20


def test_a_third_of_the_store_is_for_images():
    assert image_bytes(run(), store=300 * GIB) == 100 * GIB
    assert image_bytes(run(), store=GIB) == CAPACITY
    assert image_bytes(run(image_cache_mb=16), store=300 * GIB) == 16 << 20


def test_a_trajectory_takes_its_images_and_its_tokens():
    refs = [ImageRef(PageRef("doc", n), f"h{n}", (0, 0, 56, 28), (56, 28)) for n in (1, 2)]
    patches, grid = torch.zeros(8, 588, dtype=torch.uint8), torch.tensor([[1, 2, 4]])
    images = RowImages(tuple(EncodedImage(ref, patches.clone(), grid, LAYOUT) for ref in refs))
    plain = {"prompt_ids": [1, 2], "response_ids": [3, 4, 5], "response_mask": [1, 1, 1]}
    rows = [
        DocAgentLoopOutput(**plain, multi_modal_data={IMAGES: each}, metrics=AgentLoopMetrics())
        for each in (RowImages(()), images)
    ]
    assert trajectory_bytes(rows) == 10 * TOKEN_BYTES + 2 * 2 * 8 * 588
