"""verl's client and our server: vLLM gets the tokens of every request, and few of them are sent."""

import pickle
from types import SimpleNamespace

import pytest
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.training.serving import server as ours
from docagent_rl.training.serving.prompts import SentPrompt
from docagent_rl.training.serving.trajectory_client import remember_servers
from tests.training.serving.test_trajectory_client import client, trajectory_client

pytestmark = pytest.mark.slow

IMAGE = [151_655] * 800
REPLY = [7, 8]


class Actor:
    """A rollout server as Ray would call it: with copies of what is sent, which are counted."""

    def __init__(self):
        self.server = object.__new__(ours.vLLMHttpServer)
        self.sent, self.kept = [], []
        self.generate = SimpleNamespace(remote=self._generate)
        self.leave = SimpleNamespace(remote=self._leave)

    def restart(self):
        self.server = object.__new__(ours.vLLMHttpServer)

    async def _generate(self, **request):
        sent = pickle.dumps(request)
        self.sent.append(len(sent))
        self.kept.append(request["prompt_ids"].kept)
        return pickle.loads(pickle.dumps(await self.server.generate(**pickle.loads(sent))))

    def _leave(self, trajectory):
        self.server._prompts.drop(trajectory)


@pytest.fixture
def asked(monkeypatch):
    """Return the prompts that reach vLLM; the first reply to a prompt that ends with 99 is cut
    off.
    """
    found = []

    async def generate(self, prompt_ids, parameters, request_id, **_):
        found.append(prompt_ids)
        cut = prompt_ids[-1] == 99
        return TokenOutput(
            token_ids=REPLY[:1] if cut else list(REPLY),
            log_probs=[],
            stop_reason="aborted" if cut else "completed",
        )

    monkeypatch.setattr(ours.upstream.vLLMHttpServer, "generate", generate)
    return found


def chosen_in_order(*actors):
    """Return verl's client, whose load balancer chooses these servers one after the other."""
    made = client(*dict.fromkeys(actors))
    order = iter(actors)

    async def acquire_server(request_id):
        actor = next(order)
        return str(id(actor)), actor

    made._load_balancer.acquire_server = SimpleNamespace(remote=acquire_server)
    return made


async def play(opened, turns, start=(1, 2)):
    """Return the prompts of turns that each show one more image."""
    ids, prompts = list(start), []
    for number in range(turns):
        prompts.append(list(ids))
        output = await opened.turn(list(ids), None, {})
        ids += [*output.token_ids, 100 + number, *IMAGE]
    return prompts


async def test_a_trajectory_sends_what_is_new(asked):
    actor = Actor()
    opened, _ = trajectory_client(client(actor))
    prompts = await play(opened, 13)
    assert asked == prompts
    assert all(type(token) is int for token in asked[-1])
    assert max(actor.sent) < 700
    assert actor.kept == [0, *[len(prompt) + len(REPLY) for prompt in prompts[:-1]]]
    opened.close()
    assert not actor.server._prompts._prompts


async def test_a_restarted_server_and_another_one_get_everything(asked):
    first, second = Actor(), Actor()
    opened, _ = trajectory_client(chosen_in_order(first, first, first, second, second, first))
    prompts = await play(opened, 2)
    first.restart()
    prompts += await play(opened, 1, start=[*prompts[-1], *REPLY, 55])
    assert first.kept == [0, len(prompts[0]) + 2, len(prompts[1]) + 2, 0]
    prompts += await play(opened, 3, start=[*prompts[-1], *REPLY, 56])
    assert second.kept == [0, len(prompts[3]) + 2]
    assert first.kept[-1] == 0
    assert asked == prompts


async def test_a_reply_that_a_weight_update_cuts_off_goes_on(asked, monkeypatch):
    """verl's client of its asynchronous modes then asks for the rest."""
    from verl.workers.rollout import llm_server

    monkeypatch.setattr(llm_server.asyncio, "sleep", lambda _: _nothing())
    actor = Actor()
    base = client(actor)
    going_on = FullyAsyncLLMServerClient(base.config, base._load_balancer)
    remember_servers(going_on)
    opened, _ = trajectory_client(going_on)
    output = await opened.turn([1, *IMAGE, 99], None, {"max_tokens": 9})
    assert asked == [[1, *IMAGE, 99], [1, *IMAGE, 99, 7]]
    assert output.token_ids == [7, 7, 8]
    assert actor.kept == [0, 803]
    assert actor.sent[1] < 700


async def _nothing():
    return None


async def test_contexts_follow_one_another_and_others_are_left_alone(asked):
    actor = Actor()
    opened, _ = trajectory_client(client(actor))
    await play(opened, 2)
    prompts = await play(opened, 2, start=[1, 2, 3, 4])
    assert asked[2:] == prompts
    assert actor.kept[2] == 2
    # another user of the same server sends lists
    await actor.server.generate([5, 6], {}, "r")
    assert asked[-1] == [5, 6]
    assert not isinstance(asked[-1], SentPrompt)
