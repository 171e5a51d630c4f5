from types import SimpleNamespace

import pytest
import verl.workers.rollout.llm_server as upstream
from omegaconf import OmegaConf
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.training.serving.requests import LOADS

ROLLOUT = {"name": "vllm", "response_length": 8}


class Balanced:
    """The client's two calls of the balancer, with one server behind it."""

    def __init__(self, replies):
        super().__init__(OmegaConf.create({"actor_rollout_ref": {"rollout": ROLLOUT}}))
        replies = iter(replies)

        async def remote(**_):
            return next(replies)

        self.server = SimpleNamespace(generate=SimpleNamespace(remote=remote))

    async def _acquire_server(self, request_id, **_):
        return "server", self.server

    def _release_server(self, *_, **__):
        pass


def reply(ids, loads, step, stop="completed"):
    fields = {"global_steps": step, LOADS: loads, "place": f"of {step}"}
    return TokenOutput(
        token_ids=ids, log_probs=[-1.0] * len(ids), stop_reason=stop, extra_fields=fields
    )


@pytest.fixture
def ask(monkeypatch):
    async def at_once(_):
        pass

    monkeypatch.setattr(upstream.asyncio, "sleep", at_once)

    async def run(*replies, kind=upstream.FullyAsyncLLMServerClient):
        client = type("Client", (Balanced, kind), {})(reply(*each) for each in replies)
        return await client.generate("id", prompt_ids=[0], sampling_params={"max_tokens": 8})

    return run


async def test_loads_of_a_request_reach_the_loop_and_resumed_ones_are_added_up(ask):
    output = await ask(([1, 2], 3, 4))
    assert output.extra_fields[LOADS] == 3
    output = await ask(([1, 2], 3, 4, "aborted"), ([5], 2, 6))
    fields = output.extra_fields
    assert (output.token_ids, fields[LOADS], fields["place"]) == ([1, 2, 5], 5, "of 6")
    # what upstream carries over stays as it made it
    assert (fields["global_steps"], fields["min_global_steps"], fields["max_global_steps"]) == (
        6,
        4,
        6,
    )


async def test_upstream_still_loses_them_and_other_clients_are_as_they_were(ask, monkeypatch):
    assert (await ask(([1], 2, 3), kind=upstream.LLMServerClient)).extra_fields[LOADS] == 2
    client = upstream.FullyAsyncLLMServerClient
    monkeypatch.setattr(client, "generate", client.generate.__wrapped__)
    assert LOADS not in (await ask(([1, 2], 3, 4))).extra_fields
