"""A chat model in real environments, over real HTTP."""

import base64
import io
from itertools import accumulate

import pytest
from PIL import Image

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.envs.images import render
from docagent_rl.lab.agents.chat import ChatLimits
from docagent_rl.lab.eval.scoring.played import read_trajectory
from docagent_rl.lab.eval.scoring.protocols import use_values
from docagent_rl.lab.sft.ledgers import observation_of
from docagent_rl.rollout.trajectory import Trajectory
from tests.chat_server import ChatServer, completion, serving
from tests.lab.agents.stage import PlayingModel, chat_player, parts_of, texts_of, timeless

TOO_LONG = (
    400,
    {},
    b'{"error": {"message": "This model\'s maximum context length is 4096 tokens."}}',
)


@pytest.fixture
async def server(world):
    async with serving(ChatServer(compute=PlayingModel(world.samples))) as running:
        yield running


async def played(world, server, *, sample=0, trajectory=0, **more):
    player = chat_player(world, server, **more)
    try:
        return await player.play(world.samples[sample], trajectory)
    finally:
        await player.close()


def shown(server):
    """Return the data URLs of the images in the last request."""
    parts = [part for message in server.requests[-1]["messages"] for part in parts_of(message)]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


async def test_a_model_plays_a_question_to_its_end(world, server):
    trajectory = await played(world, server)
    assert (trajectory.status, trajectory.end, trajectory.metrics["turns"]) == (
        "finished",
        "answered",
        3,
    )
    assert [turn.info["action"]["kind"] for turn in trajectory.turns] == [
        "search",
        "crop",
        "answer",
    ]
    assert [len(turn.searches) for turn in trajectory.turns] == [1, 0, 0]
    assert trajectory.reward == pytest.approx(sum(turn.reward for turn in trajectory.turns))
    assert trajectory.reward > 0
    assert timeless(Trajectory.from_json(trajectory.to_json())) == timeless(trajectory)
    assert timeless(await played(world, server)) == timeless(trajectory)


async def test_the_history_holds_what_was_shown_and_what_was_said(world, server):
    trajectory = await played(world, server)
    said = [texts_of(m)[0] for m in server.requests[-1]["messages"] if m["role"] == "assistant"]
    assert said == [turn.text for turn in trajectory.turns[:-1]]
    images = [
        image for turn in trajectory.turns[:-1] for image in observation_of(turn.observation).images
    ]
    assert len(images) == 2
    for url, picture in zip(shown(server), images, strict=True):
        head, _, data = url.partition(",")
        assert head == "data:image/png;base64"
        pixels = Image.open(io.BytesIO(base64.b64decode(data)))
        assert pixels.tobytes() == render(picture, world.store).tobytes()


async def test_tokens_are_those_that_the_server_counts(world, server):
    trajectory = await played(world, server)
    counted = [PlayingModel(world.samples)(request)["usage"] for request in server.requests]
    sent, written = (
        [each[f"{name}_tokens"] for each in counted] for name in ("prompt", "completion")
    )
    grown = (
        turn.sampled - turn.reasoning_tokens + turn.observation_tokens
        for turn in trajectory.turns[:-1]
    )
    assert list(accumulate(grown, initial=trajectory.prompt_tokens)) == sent
    assert [turn.completion_tokens for turn in trajectory.turns] == written
    assert use_values(trajectory)["output_tokens"] == sum(written)


async def test_a_turn_that_was_cut_off_is_truncated_and_thoughts_stay_apart(world):
    model = PlayingModel(world.samples)

    def compute(request):
        body = model(request)
        body["choices"][0]["message"]["reasoning_content"] = (
            "What a question, I have to look at it."
        )
        if len(request["messages"]) < 3:
            body["choices"][0]["finish_reason"] = "length"
        return body

    async with serving(ChatServer(compute=compute)) as server:
        trajectory = await played(world, server)
    assert (trajectory.turns[0].stop, trajectory.turns[-1].stop) == ("truncated", "end_of_turn")
    heard = [text for m in server.requests[-1]["messages"] for text in texts_of(m)]
    assert not any(
        "What a question" in text for text in (*heard, *(turn.text for turn in trajectory.turns))
    )
    assert all(turn.reasoning_tokens == 10 for turn in trajectory.turns)


async def test_a_conversation_that_does_not_fit_ends_the_trajectory_without_a_fault(world):
    model = PlayingModel(world.samples)

    def compute(request):
        return TOO_LONG if len(request["messages"]) > 3 else model(request)

    async with serving(ChatServer(compute=compute)) as server:
        trajectory = await played(world, server)
    assert (trajectory.status, trajectory.end, len(trajectory.turns)) == (
        "unfinished",
        "context_full",
        1,
    )
    assert trajectory.turns[0].dropped
    assert trajectory.turns[0].observation
    assert use_values(trajectory)["images"] == 0


async def test_a_known_context_ends_the_trajectory_before_anything_is_refused(world, server):
    whole = await played(world, server)
    asked, room = len(server.requests), whole.prompt_tokens + whole.turns[0].completion_tokens + 20
    trajectory = await played(world, server, limits=ChatLimits(turn=200, context=room))
    assert (trajectory.end, len(trajectory.turns), len(server.requests)) == (
        "context_full",
        1,
        asked + 1,
    )
    assert server.requests[-1]["max_tokens"] < 200


async def test_a_prompt_that_does_not_fit_is_the_questions_fault_and_other_refusals_the_services(
    world,
):
    refused = (400, {}, b'{"error": {"message": "unknown model"}}')
    async with serving(ChatServer([TOO_LONG, refused])) as server:
        with pytest.raises(UserError):
            await played(world, server)
        with pytest.raises(InfrastructureError, match="unknown model"):
            await played(world, server)


@pytest.mark.parametrize(
    "then", [completion("<FINISH>", usage=(10, 5)), TOO_LONG], ids=["finish", "too long"]
)
async def test_a_fresh_context_begins_a_new_conversation_and_its_end_keeps_the_answer(world, then):
    """MM-Doc-R1's answer agent writes from what was read until then."""

    def compute(request):
        begun = len(server.requests) == 1
        return completion('Look. <search>["revenue"]</search>', usage=(10, 5)) if begun else then

    async with serving(ChatServer(compute=compute)) as server:
        trajectory = await played(world, server, system="mm_doc_r1")
    first, second = ([m["role"] for m in request["messages"]] for request in server.requests)
    assert first == second
    assert "assistant" not in second
    if then is TOO_LONG:
        assert (trajectory.status, trajectory.end, len(trajectory.turns)) == (
            "unfinished",
            "context_full",
            1,
        )
        answer = trajectory.turns[-1].info["outcome"]["answer"]
        assert answer
        assert read_trajectory(trajectory).answer == answer
    else:
        assert [turn.row for turn in trajectory.turns] == [0, 1]


async def test_identity_tells_prompts_and_models_apart_but_not_places(world, server):
    one = chat_player(world, server)
    server.url = server.url.replace("127.0.0.1", "localhost")
    assert chat_player(world, server).identity == one.identity
    hot = chat_player(world, server, endpoint={"temperature": 0.5})
    short = chat_player(world, server, env={"max_turns": 2})
    assert len({str(player.identity) for player in (one, hot, short)}) == 3


async def test_seeds_belong_to_question_trajectory_and_turn(world, server):
    async def seeds(trajectory):
        server.requests.clear()
        limits = ChatLimits(turn=200, seed=3)
        await played(
            world, server, trajectory=trajectory, endpoint={"temperature": 1.0}, limits=limits
        )
        return [request["seed"] for request in server.requests]

    first, second = await seeds(0), await seeds(1)
    assert len({*first, *second}) == len(first) + len(second)
    assert await seeds(0) == first
