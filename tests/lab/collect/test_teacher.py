"""Teachers and their helpers in real environments, over real HTTP."""

from __future__ import annotations

from collections import Counter

from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.agents.chat import ChatLimits, ChatModel
from docagent_rl.lab.collect.config import TeacherConfig
from docagent_rl.lab.collect.teacher import HelpedRetriever, TeacherPlayer, shuffled_orders
from tests.chat_server import ChatServer, serving
from tests.lab.agents.stage import PlayingModel, resources

LIMITS = ChatLimits(turn=200)
GUIDED = TeacherConfig(guided_search=True)


def model(server, name="m"):
    endpoint = Endpoint(base_url=server.url, model=name, timeout_s=60, deadline_s=120, backoff_s=0)
    return ChatModel(RemoteModel(endpoint, name))


async def played(world, sample, config):
    """A trajectory of a teacher with this help."""
    async with serving(ChatServer(compute=PlayingModel(world.samples))) as server:
        player = TeacherPlayer(resources(world, "vrag_rl"), model(server), LIMITS, config)
        trajectory = await player.play(sample, 0)
        await player.close()
        return trajectory


async def test_a_guided_search_shows_gold_pages_first(world):
    golds, hits = [], []
    for config in (TeacherConfig(), GUIDED):
        turns = [(await played(world, sample, config)).turns[0] for sample in world.samples[:3]]
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
