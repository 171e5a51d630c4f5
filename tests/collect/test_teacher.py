"""Teachers and their helpers in real environments, over real HTTP."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from docagent_rl.collect.config import TeacherConfig
from docagent_rl.collect.helped import HelpedRetriever, Shuffle
from docagent_rl.collect.teacher import TeacherPlayer
from docagent_rl.endpoints.chat_client import ChatEndpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.envs.services import RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.play.chat import ChatLimits
from docagent_rl.play.chat_model import EndpointModel
from tests.chat_server import ChatServer, completion, serving
from tests.play.stage import PlayingModel, resources, texts_of

LIMITS = ChatLimits(turn=200)
GUIDED = TeacherConfig(guided_search=True)


def halves(image):
    """The layout of a page: its upper and its lower half."""
    return [(0.0, 0.0, 1.0, 0.5), (0.0, 0.5, 1.0, 1.0)]


def wild(image):
    return [(0.0, 0.0, 2.0, 0.5)]


def model(server, name="m"):
    endpoint = ChatEndpoint(server.url, name, timeout_s=5, deadline_s=10, backoff_s=0)
    return EndpointModel(RemoteModel(endpoint, name))


async def played(world, server, config, record=None, *, system="vrag_rl", grounder=None):
    player = TeacherPlayer.of(resources(world, system), model(server), LIMITS, config, grounder=grounder)
    trajectory = await player.play(record or world.records[0], 0)
    await player.close()
    return trajectory


class Wordless(PlayingModel):
    """Its queries find anything but the gold page."""

    def turn(self, question, number, images):
        if number < 2:
            return "<think>Hm.</think><search>table figure total</search>"
        return f"<think>I know.</think><answer>{self.answers[question]}</answer>"


async def test_a_guided_search_shows_gold_pages_first(world):
    async with serving(ChatServer(compute=Wordless(world.records))) as server:
        alone = [await played(world, server, TeacherConfig(), record) for record in world.records]
        guided = [await played(world, server, GUIDED, record) for record in world.records]
    golds = [[page["gold"] for page in t.turns[0].info["effect"].get("pages", ())] for t in guided]
    found = {hit[0] for t in guided for hit in t.turns[0].searches[0]["hits"]}
    assert sum(map(any, golds)) > sum(t.turns[0].info["effect"]["pages"][0]["gold"] for t in alone)
    assert found
    # what the retriever found is recorded as it was
    assert [t.turns[0].searches[0]["hits"] for t in guided] == [t.turns[0].searches[0]["hits"] for t in alone]


async def test_places_of_candidates_are_shuffled_and_all_come_equally_often(world):
    service = RetrieverService(world.retriever)
    record = world.records[0]
    plain = await service.search(record.question, doc_id=record.doc_id, top_k=3)
    shuffle = Shuffle(3, "seed")
    helped = HelpedRetriever.of(service, record, guided=False, shuffle=shuffle)
    orders = [
        tuple(plain.index(hit) for hit in await helped.search(record.question, doc_id=record.doc_id, top_k=3))
        for _ in range(12)
    ]
    assert len(plain) == 3
    assert set(Counter(orders).values()) == {2}
    assert len(set(orders)) == 6
    again = HelpedRetriever.of(service, record, guided=False, shuffle=Shuffle(3, "seed"))
    second = await again.search(record.question, doc_id=record.doc_id, top_k=3)
    assert tuple(map(plain.index, second)) == orders[0]


async def test_a_second_model_draws_the_boxes_and_nothing_else(world):
    asked = []

    def draw(request):
        asked.append(request["messages"])
        return completion("The table is at [20, 30, 60, 70].", usage=(5, 5))

    async with (
        serving(ChatServer(compute=PlayingModel(world.records))) as server,
        serving(ChatServer(compute=draw)) as drawing,
    ):
        config = TeacherConfig(grounding=True)
        trajectory = await played(world, server, config, grounder=model(drawing, "g"))
    crop = trajectory.turns[1]
    assert crop.text == "<think>I zoom.</think><bbox>[20, 30, 60, 70]</bbox>"
    assert crop.info["effect"]["kind"] == "crop"
    assert len(asked) == 1
    assert texts_of(asked[0][-2]) == ["<think>I zoom.</think>"]
    assert "in pixels of that image" in texts_of(asked[0][-1])[0]


async def test_boxes_in_thousandths_become_those_of_the_environment(world):
    def draw(request):
        return completion("[0, 500, 1000, 1000]", usage=(5, 5))

    async with (
        serving(ChatServer(compute=PlayingModel(world.records))) as server,
        serving(ChatServer(compute=draw)) as drawing,
    ):
        config = TeacherConfig(grounding=True, grounding_frame="norm1000")
        trajectory = await played(world, server, config, grounder=model(drawing, "g"))
    region = trajectory.turns[1].info["effect"]["region"]
    assert region == pytest.approx([0, 0.5, 1, 1], abs=0.02)


async def test_a_grounder_without_a_box_leaves_the_teachers(world):
    async with (
        serving(ChatServer(compute=PlayingModel(world.records))) as server,
        serving(ChatServer(["I see nothing"])) as drawing,
    ):
        config = TeacherConfig(grounding=True)
        trajectory = await played(world, server, config, grounder=model(drawing, "g"))
    assert trajectory.turns[1].text == "<think>I zoom.</think><bbox>[10, 10, 90, 90]</bbox>"


async def test_boxes_become_those_of_the_layout_that_they_touch(world):
    async with serving(ChatServer(compute=PlayingModel(world.records))) as server:
        config = TeacherConfig(layout="tests.collect.test_teacher:halves")
        trajectory = await played(world, server, config)
        region = trajectory.turns[1].info["effect"]["region"]
        assert region == pytest.approx([0, 0, 1, 0.5], abs=0.02)
        with pytest.raises(UserError, match=r"\(0\.0, 0\.0, 2\.0, 0\.5\)"):
            await played(world, server, TeacherConfig(layout="tests.collect.test_teacher:wild"))


async def test_a_teacher_picks_of_the_layout_that_is_drawn_for_it(world):
    plain, asked = PlayingModel(world.records), []

    def reply(request):
        if "numbered" not in str(texts_of(request["messages"][-1])):
            return plain(request)
        asked.append(request["messages"])
        return completion("[2]", usage=(5, 5))

    async with serving(ChatServer(compute=reply)) as server:
        config = TeacherConfig(layout="tests.collect.test_teacher:halves")
        trajectory = await played(world, server, config)
        silent = await played(world, server, config.model_copy(update={"proposals": False}))
    assert trajectory.turns[1].info["effect"]["region"] == pytest.approx([0, 0.5, 1, 1], abs=0.02)
    assert silent.turns[1].info["effect"]["region"] == pytest.approx([0, 0, 1, 0.5], abs=0.02)
    ((*_, thought, question),) = asked
    assert thought == {"role": "assistant", "content": "<think>I zoom.</think>"}
    assert [part["type"] for part in question["content"]] == ["text", "image_url"]


async def test_help_that_cannot_be_given_is_told(world):
    async with serving(ChatServer()) as server:
        with pytest.raises(UserError, match="--grounder-base-url"):
            await played(world, server, TeacherConfig(grounding=True))
        with pytest.raises(UserError, match="grounding"):
            await played(world, server, TeacherConfig(), grounder=model(server))
        layout = TeacherConfig(layout="tests.collect.test_teacher:halves")
        with pytest.raises(UserError, match="doc_v_star"):
            await played(world, server, layout, system="doc_v_star")
        with pytest.raises(UserError, match="'gone'"):
            await played(world, server, TeacherConfig(layout="tests.collect.test_teacher:gone"))


async def test_help_is_part_of_the_identity(world):
    async with serving(ChatServer()) as server:
        shared = resources(world, "vrag_rl")
        plain = TeacherPlayer.of(shared, model(server), LIMITS, TeacherConfig())
        guided = TeacherPlayer.of(shared, model(server), LIMITS, GUIDED)
        other = TeacherPlayer.of(shared, model(server), dataclasses.replace(LIMITS, turn=9), GUIDED)
    assert len({str(player.identity) for player in (plain, guided, other)}) == 3
