"""Teachers and their helpers in real environments, over real HTTP."""

import contextlib
from collections import Counter

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.agents.chat import ChatLimits, ChatModel
from docagent_rl.lab.collect.config import TeacherConfig
from docagent_rl.lab.collect.teacher import HelpedRetriever, TeacherPlayer, shuffled_orders
from tests.chat_server import ChatServer, completion, serving
from tests.lab.agents.stage import PlayingModel, resources, texts_of

LIMITS = ChatLimits(turn=200)
GUIDED = TeacherConfig(guided_search=True)


def model(server, name="m"):
    endpoint = Endpoint(base_url=server.url, model=name, timeout_s=60, deadline_s=120, backoff_s=0)
    return ChatModel(RemoteModel(endpoint, name))


async def played(world, config, *, reply=None, draw=None, sample=None, system="vrag_rl"):
    """Play a trajectory of a teacher with these replies; `draw` is a second model's reply about its
    boxes.
    """
    async with contextlib.AsyncExitStack() as stack:
        teacher = ChatServer(compute=reply or PlayingModel(world.samples))
        await stack.enter_async_context(serving(teacher))
        grounder = None
        if draw is not None:
            grounder = model(
                await stack.enter_async_context(serving(ChatServer(compute=draw))), "g"
            )
        shared = resources(world, system)
        player = TeacherPlayer(shared, model(teacher), LIMITS, config, grounder=grounder)
        trajectory = await player.play(sample or world.samples[0], 0)
        await player.close()
        return trajectory


def region(trajectory):
    return trajectory.turns[1].info["effect"]["region"]


async def test_a_guided_search_shows_gold_pages_first(world):
    golds, hits = [], []
    for config in (TeacherConfig(), GUIDED):
        turns = [
            (await played(world, config, sample=sample)).turns[0] for sample in world.samples[:3]
        ]
        golds.append(sum(turn.info["effect"]["pages"][0]["gold"] for turn in turns))
        hits.append([turn.searches[0]["hits"] for turn in turns])
    assert golds[1] > golds[0]
    # what the retriever found is recorded as it was
    assert hits[0] == hits[1]


async def test_places_of_candidates_are_shuffled_and_all_come_equally_often(world):
    service, sample = RetrieverService(world.retriever), world.samples[0]
    where = {"doc_id": sample.doc_id, "top_k": 3}
    plain = await service.search(sample.question, **where)

    async def orders(times):
        helped = HelpedRetriever(service, orders=shuffled_orders(3, "seed"))
        return [
            tuple(plain.index(hit) for hit in await helped.search(sample.question, **where))
            for _ in range(times)
        ]

    found = await orders(12)
    assert len(plain) == 3
    assert list(Counter(found).values()) == [2] * 6
    assert await orders(1) == found[:1]


async def test_a_second_model_draws_the_boxes_and_nothing_else(world):
    asked = []

    def draw(request):
        asked.append(request["messages"])
        return completion("The table is at [20, 30, 60, 70].", usage=(5, 5))

    crop = (await played(world, TeacherConfig(grounding=True), draw=draw)).turns[1]
    assert crop.text == "<think>I zoom.</think><bbox>[20, 30, 60, 70]</bbox>"
    assert crop.info["effect"]["kind"] == "crop"
    ((*_, thought, question),) = asked
    assert texts_of(thought) == ["<think>I zoom.</think>"]
    assert "pixels" in texts_of(question)[0]


async def test_boxes_in_thousandths_become_those_of_the_environment(world):
    config = TeacherConfig(grounding=True, grounding_frame="norm1000")
    trajectory = await played(
        world, config, draw=lambda _: completion("[0, 500, 1000, 1000]", usage=(5, 5))
    )
    assert region(trajectory) == pytest.approx([0, 0.5, 1, 1], abs=0.02)
    # who draws none leaves the teacher's
    trajectory = await played(world, config, draw=lambda _: "I see nothing")
    assert trajectory.turns[1].text == "<think>I zoom.</think><bbox>[10, 10, 90, 90]</bbox>"


@pytest.mark.parametrize(
    ("config", "more", "named"),
    [
        (TeacherConfig(grounding=True), {}, "--grounder-base-url"),
        (TeacherConfig(), {"draw": str}, "grounding"),
        (TeacherConfig(grounding=True), {"draw": str, "system": "doc_v_star"}, "doc_v_star"),
    ],
)
async def test_help_that_cannot_be_given_is_told(world, config, more, named):
    with pytest.raises(UserError, match=named):
        await played(world, config, **more)
