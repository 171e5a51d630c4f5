"""A chat model in real environments, over real HTTP."""

from __future__ import annotations

import base64
import dataclasses
import io
import json

import pytest
from PIL import Image

from docagent_rl.endpoints.budget import Budget
from docagent_rl.envs.delivery import render
from docagent_rl.errors import BudgetError, InfrastructureError, UserError
from docagent_rl.eval.metrics.sessions import SessionUse
from docagent_rl.eval.scoring.played import read_session
from docagent_rl.play.chat import ChatLimits
from docagent_rl.play.chat_messages import ImageFormat, MessageMaker
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.sft.replay import observation_of
from tests.chat_server import ChatServer, completion, serving
from tests.play.stage import PlayingModel, chat_player, parts_of, texts_of, timeless

TOO_LONG = (400, {}, b'{"error": {"message": "This model\'s maximum context length is 4096 tokens."}}')


@pytest.fixture
async def server(world):
    async with serving(ChatServer(compute=PlayingModel(world.records))) as running:
        yield running


async def test_a_model_plays_a_question_to_its_end(world, server):
    player, record = chat_player(world, server), world.records[0]
    played = await player.play(record, 0)
    await player.close()
    assert (played.status, played.end) == ("finished", "answered")
    kinds = [turn.info["action"]["kind"] for turn in played.turns]
    assert kinds == ["search", "crop", "answer"]
    assert played.reward == pytest.approx(sum(turn.reward for turn in played.turns))
    assert played.reward > 0
    assert [len(turn.searches) for turn in played.turns] == [1, 0, 0]
    assert played.metrics["turns"] == 3
    assert timeless(Trajectory.from_dict(json.loads(played.to_json()))) == timeless(played)


async def test_the_history_holds_what_was_shown_and_what_was_said(world, server):
    player = chat_player(world, server)
    played = await player.play(world.records[0], 0)
    last = server.requests[-1]["messages"]
    assert [m["role"] for m in last if m["role"] == "assistant"] == ["assistant"] * 2
    said = [texts_of(m)[0] for m in last if m["role"] == "assistant"]
    assert said == [turn.text for turn in played.turns[:-1]]
    sent = [p["image_url"]["url"] for m in last for p in parts_of(m) if p["type"] == "image_url"]
    shown = [image for turn in played.turns[:-1] for image in observation_of(turn.observation).images]
    assert len(sent) == len(shown) == 2
    for url, picture in zip(sent, shown, strict=True):
        head, _, data = url.partition(",")
        assert head == "data:image/png;base64"
        pixels = Image.open(io.BytesIO(base64.b64decode(data)))
        assert pixels.tobytes() == render(picture, world.store).tobytes()
    await player.close()


async def test_images_may_travel_smaller(world, server):
    plain = chat_player(world, server)
    small = dataclasses.replace(plain, maker=MessageMaker.over(world.store, ImageFormat.JPEG))
    await small.play(world.records[0], 0)
    (url, *_) = [
        part["image_url"]["url"]
        for message in server.requests[-1]["messages"]
        for part in parts_of(message)
        if part["type"] == "image_url"
    ]
    assert url.startswith("data:image/jpeg;base64,/9j/")
    assert small.identity != plain.identity


async def test_tokens_are_those_that_the_server_counts(world, server):
    player = chat_player(world, server)
    played = await player.play(world.records[0], 0)
    counted = [PlayingModel(world.records)(request)["usage"] for request in server.requests]
    assert played.prompt_tokens == counted[0]["prompt_tokens"]
    assert [turn.completion_tokens for turn in played.turns] == [u["completion_tokens"] for u in counted]
    use = SessionUse.of(played)
    assert use.sent_tokens == sum(usage["prompt_tokens"] for usage in counted)
    assert use.output_tokens == sum(usage["completion_tokens"] for usage in counted)
    await player.close()


async def test_a_turn_that_was_cut_off_is_truncated_and_thoughts_stay_apart(world):
    model = PlayingModel(world.records)

    def compute(request):
        body = model(request)
        body["choices"][0]["message"]["reasoning_content"] = "What a question, I have to look at it."
        if len(request["messages"]) < 3:
            body["choices"][0]["finish_reason"] = "length"
        return body

    async with serving(ChatServer(compute=compute)) as server:
        player = chat_player(world, server)
        played = await player.play(world.records[0], 0)
        await player.close()
    assert played.turns[0].stop == "truncated"
    assert played.turns[-1].stop == "end_of_turn"
    assert not any("What a question" in turn.text for turn in played.turns)
    assert not any("What a question" in text for m in server.requests[-1]["messages"] for text in texts_of(m))
    assert all(turn.reasoning_tokens == 10 for turn in played.turns)


async def test_a_conversation_that_does_not_fit_ends_the_session_without_a_fault(world):
    model = PlayingModel(world.records)

    def compute(request):
        return TOO_LONG if len(request["messages"]) > 3 else model(request)

    async with serving(ChatServer(compute=compute)) as server:
        player = chat_player(world, server)
        played = await player.play(world.records[0], 0)
        await player.close()
    assert (played.status, played.end, len(played.turns)) == ("unfinished", "context_full", 1)
    assert played.turns[0].dropped
    assert played.turns[0].observation
    assert SessionUse.of(played).images == 0


async def test_a_known_context_ends_the_session_before_anything_is_refused(world, server):
    player = chat_player(world, server)
    whole = await player.play(world.records[0], 0)
    asked = len(server.requests)
    room = whole.prompt_tokens + whole.turns[0].completion_tokens + 20
    player = chat_player(world, server, limits=ChatLimits(turn=200, context=room))
    played = await player.play(world.records[0], 0)
    assert (played.end, len(played.turns), len(server.requests)) == ("context_full", 1, asked + 1)
    assert server.requests[-1]["max_tokens"] < 200


async def test_a_prompt_that_does_not_fit_is_the_questions_fault(world):
    async with serving(ChatServer([TOO_LONG])) as server:
        with pytest.raises(UserError):
            await chat_player(world, server).play(world.records[0], 0)


async def test_other_refusals_are_faults(world):
    refused = (400, {}, b'{"error": {"message": "unknown model"}}')
    async with serving(ChatServer([refused])) as server:
        with pytest.raises(InfrastructureError, match="unknown model"):
            await chat_player(world, server).play(world.records[0], 0)


async def test_a_spent_budget_ends_the_session(world, server):
    player = chat_player(world, server, budget=Budget(max_requests=2))
    with pytest.raises(BudgetError):
        await player.play(world.records[0], 0)
    assert len(server.requests) == 2


async def test_a_fresh_context_begins_a_new_conversation(world):
    def compute(request):
        begun = len(server.requests) == 1
        return completion('Look. <search>["revenue"]</search>' if begun else "<FINISH>", usage=(10, 5))

    async with serving(ChatServer(compute=compute)) as server:
        player = chat_player(world, server, "mm_doc_r1")
        played = await player.play(world.records[0], 0)
        await player.close()
    assert [turn.row for turn in played.turns] == [0, 1]
    first, second = (request["messages"] for request in server.requests)
    assert [message["role"] for message in second] == [message["role"] for message in first]
    assert not any(message["role"] == "assistant" for message in second)


async def test_what_others_answer_is_kept_when_the_context_ends_the_session(world):
    """MM-Doc-R1's answer agent writes from what was read until then."""

    def compute(request):
        begun = len(server.requests) == 1
        return completion('Look. <search>["revenue"]</search>', usage=(10, 5)) if begun else TOO_LONG

    async with serving(ChatServer(compute=compute)) as server:
        player = chat_player(world, server, "mm_doc_r1")
        played = await player.play(world.records[0], 0)
        await player.close()
    assert (played.status, played.end, len(played.turns)) == ("unfinished", "context_full", 1)
    outcome = played.turns[-1].info["outcome"]
    assert outcome["answer"]
    assert read_session(played).answer == outcome["answer"]


async def test_seeds_belong_to_question_session_and_turn(world, server):
    player = chat_player(world, server, endpoint={"temperature": 1.0}, limits=ChatLimits(turn=200, seed=3))
    await player.play(world.records[0], 0)
    first = [request["seed"] for request in server.requests]
    await player.play(world.records[0], 1)
    second = [request["seed"] for request in server.requests[len(first) :]]
    assert len({*first, *second}) == len(first) + len(second)
    again = chat_player(world, server, endpoint={"temperature": 1.0}, limits=ChatLimits(turn=200, seed=3))
    server.requests.clear()
    await again.play(world.records[0], 0)
    assert [request["seed"] for request in server.requests] == first


async def test_the_same_session_is_the_same_but_the_clock(world, server):
    player = chat_player(world, server)
    first, second = [await player.play(world.records[1], 0) for _ in range(2)]
    assert timeless(first) == timeless(second)


async def test_identity_tells_prompts_and_models_apart_but_not_places(world, server):
    one = chat_player(world, server)
    server.url = server.url.replace("127.0.0.1", "localhost")
    assert chat_player(world, server).identity == one.identity
    assert chat_player(world, server, endpoint={"temperature": 0.5}).identity != one.identity
    assert chat_player(world, server, env={"max_turns": 2}).identity != one.identity
