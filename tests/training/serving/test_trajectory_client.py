"""A trajectory's requests name the trajectory to verl's client and to the servers it chooses."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    RayTaskError,
)
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.serving import trajectory_client as of_client
from docagent_rl.training.serving.kv_admission import Ticket
from docagent_rl.training.serving.requests import SERVED, Served
from docagent_rl.training.serving.trajectory_client import (
    DEAD_S,
    UNAVAILABLE_S,
    Prefills,
    TrajectoryClient,
    admits,
    remember_servers,
)

VLLM = OmegaConf.create({"name": "vllm"})


class Remote:
    """A stand-in for a method of a Ray actor: `remote` calls it and returns an awaitable."""

    def __init__(self, function):
        self.function = function

    def remote(self, *args, **kwargs):
        found = self.function(*args, **kwargs)

        async def result():
            if isinstance(found, Exception):
                raise found
            return found

        return result() if self.function.__name__ != "leave" else None


class Server:
    """A rollout server with scripted replies, which may be errors."""

    def __init__(self, *replies):
        self.replies, self.asked, self.left = list(replies), [], []
        self.generate, self.leave = Remote(self._generate), Remote(self._leave())

    def _generate(self, **request):
        self.asked.append(request)
        return self.replies.pop(0)

    def _leave(self):
        def leave(trajectory):
            self.left.append(trajectory)

        return leave


def reply(*tokens, cached=0, playing=1, waiting=0):
    fields = {"num_cached_tokens": cached, SERVED: Served(playing, waiting)}
    return TokenOutput(token_ids=list(tokens), extra_fields=fields)


def client(*servers):
    """Return verl's client, whose load balancer takes the servers in turn."""
    turn = iter(range(100))

    def acquire_server(request_id):
        number = next(turn) % len(servers)
        return f"server-{number}", servers[number]

    balancer = SimpleNamespace(
        require_acquire_fields=Remote(lambda: []),
        require_release_fields=Remote(lambda: []),
        acquire_server=Remote(acquire_server),
        release_server=SimpleNamespace(remote=lambda server_id: None),
    )
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"name": "vllm"}}})
    found = LLMServerClient(config, balancer)
    remember_servers(found)
    return found


def trajectory_client(of, config=VLLM, **others):
    trajectory = Trajectory("q", 3, 0, "train", {}, "test")
    opened = TrajectoryClient(
        of, config, trajectory, route="q-0", sampling={"top_p": 1.0}, **others
    )
    return opened, trajectory


async def test_turns_carry_the_ticket_and_count_what_was_computed_again():
    server = Server(reply(7, 8, cached=0), reply(9, cached=4), reply(1, cached=2))
    opened, trajectory = trajectory_client(client(server))
    await opened.turn([1, 2, 3], None, {"max_tokens": 5})
    assert (trajectory.prefill_new, trajectory.prefill_computed) == (0, 0)
    await opened.turn([1, 2, 3, 7, 8, 4, 4], None, {})
    assert (trajectory.prefill_new, trajectory.prefill_computed) == (2, 3)
    # the server had lost most of it
    await opened.turn([1, 2, 3, 7, 8, 4, 4, 9, 6], None, {})
    assert (trajectory.prefill_new, trajectory.prefill_computed) == (3, 10)
    assert {each["ticket"] for each in server.asked} == {Ticket("q_3_1", "q", 3)}
    assert server.asked[0]["sampling_params"] == {"top_p": 1.0, "max_tokens": 5}
    opened.close()
    assert server.left == ["q_3_1"]


async def test_other_replies_need_no_room():
    server = Server(reply(7))
    opened, _ = trajectory_client(client(server))
    await opened.reply([1, 2], {"max_tokens": 1})
    assert "ticket" not in server.asked[0]
    opened.close()
    assert server.left == []


async def test_a_trajectory_that_moves_leaves_and_gives_its_room_back_after_a_failure():
    first, second = Server(reply(7)), Server(ConnectionError("lost"))
    opened, _ = trajectory_client(client(first, second))
    await opened.turn([1], None, {})
    assert first.left == []
    with pytest.raises(ConnectionError):
        await opened.turn([1, 7], None, {})
    # the same ticket, with the prompt that it began with
    assert second.asked[0]["ticket"] == first.asked[0]["ticket"] == Ticket("q_3_1", "q", 1)
    assert (first.left, second.left) == (["q_3_1"], [])
    opened.close()
    opened.close()
    assert (first.left, second.left) == (["q_3_1"], ["q_3_1"])


async def test_servers_of_another_engine_are_sent_no_ticket():
    for config in ({"name": "sglang"}, {"name": "vllm", "disaggregation": {"enabled": True}}):
        server = Server(reply(7))
        opened, _ = trajectory_client(client(server), OmegaConf.create(config))
        assert not admits(OmegaConf.create(config))
        await opened.turn([1], None, {})
        opened.close()
        assert "ticket" not in server.asked[0]
        assert server.left == []


async def test_the_load_is_that_of_the_last_reply():
    opened, _ = trajectory_client(client(Server(reply(7, playing=3, waiting=5))))
    assert opened.load == Served(0, 0)
    await opened.turn([1], None, {})
    assert opened.load == Served(3, 5)


class EngineDeadError(RuntimeError):
    """An error with the name of vLLM's."""


def of_server(error):
    return RayTaskError("generate", "traceback", error)


@pytest.mark.parametrize(
    ("error", "waits_s"),
    [
        (ActorDiedError(), DEAD_S),
        (of_server(EngineDeadError("gone")), DEAD_S),
        # it may only be unreachable for a moment
        (ActorUnavailableError("no answer", None), UNAVAILABLE_S),
        # errors of one request, which say nothing about the server
        (of_server(ValueError("too long")), 0.0),
        (GetTimeoutError("late"), 0.0),
    ],
)
async def test_only_a_dead_server_is_waited_for(error, waits_s, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(of_client, "asyncio", SimpleNamespace(sleep=sleep))
    for ask in ("turn", "reply"):
        opened, _ = trajectory_client(client(Server(error)), awaits_servers=True)
        with pytest.raises(type(error)):
            await getattr(opened, ask)([1], *([None] if ask == "turn" else []), {})
        assert slept.pop() == waits_s
        # where nothing is replaced, nothing is waited for
        opened, _ = trajectory_client(client(Server(error)))
        with pytest.raises(type(error)):
            await getattr(opened, ask)([1], *([None] if ask == "turn" else []), {})
        assert slept == []


def test_a_request_that_does_not_continue_the_one_before_is_a_first_one():
    trajectory = Trajectory("q", 0, 0, "train", {}, "test")
    prefills = Prefills(trajectory)
    prefills.count([1, 2, 3], [4], cached=0)
    prefills.count([9, 9], [4], cached=0)
    assert (trajectory.prefill_new, trajectory.prefill_computed) == (0, 0)
    prefills.count([9, 9, 4, 5], [6], cached=2)
    assert (trajectory.prefill_new, trajectory.prefill_computed) == (1, 2)
