"""When a dead server is replaced, and what it leaves behind."""

import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
from ray.exceptions import ActorDiedError
from verl.workers.rollout.router import GlobalRequestLoadBalancer

from docagent_rl.training.serving import replacing
from docagent_rl.training.serving.replacing import Process, Servers, make_room, replaces_parts
from tests.processes import ends

ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"


def configured(recipe, *overrides, mode="sync"):
    # this package's trainers put verl's name of their mode here
    return recipe("vrag_rl_qwen2_5_vl_7b", *overrides, f"trainer.v1.trainer_mode={mode}")


def test_a_run_whose_rollouts_can_be_played_again_replaces(recipe):
    one = f"{ROLLOUT}.tensor_model_parallel_size=1"
    assert replaces_parts(configured(recipe, one))
    merged = (f"{MODEL}.lora_rank=8", f"{MODEL}.lora.merge=true")
    assert replaces_parts(configured(recipe, one, *merged))


@pytest.mark.parametrize(
    "overrides",
    [
        (f"{ROLLOUT}.tensor_model_parallel_size=2",),
        (f"{ROLLOUT}.data_parallel_size=2",),
        (f"{MODEL}.lora_rank=8",),
        ("algorithm.filter_groups.enable=true",),
        ("trainer.v1.sampler.custom_sampler.path=mine.py",),
        (f"{ROLLOUT}.prometheus.enable=true",),
        (f"{ROLLOUT}.mtp.enable=true",),
    ],
)
def test_others_end_with_their_parts(recipe, overrides):
    assert not replaces_parts(configured(recipe, *overrides))


@pytest.mark.parametrize("mode", ["colocate_async", "separate_async"])
def test_asynchronous_modes_end_with_their_parts(recipe, mode):
    assert not replaces_parts(configured(recipe, mode=mode))


def test_what_a_dead_server_left_is_ended_and_nothing_else():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    left, later = (subprocess.Popen(command) for _ in range(2))
    began = psutil.Process(left.pid).create_time()
    worker = SimpleNamespace(
        worker_dict={
            "actor": SimpleNamespace(rollout=SimpleNamespace(server_handle="dead")),
            "critic": SimpleNamespace(),
        }
    )
    try:
        # the id of one that had ended was given to another process
        make_room(worker, [Process(left.pid, began), Process(later.pid, began - 1)])
        assert ends(left.pid, within=5)
        assert later.poll() is None
    finally:
        for process in (left, later):
            process.kill()
            process.wait()
    assert worker.worker_dict["actor"].rollout.server_handle is None


def test_a_server_knows_what_it_has_started():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        found = replacing.server_descendants(None)
        assert Process(child.pid, psutil.Process(child.pid).create_time()) in found
    finally:
        child.kill()
        child.wait()


class Here:
    """An actor whose methods run at once."""

    def __init__(self, actor):
        self.actor = actor

    def __getattr__(self, name):
        return SimpleNamespace(remote=getattr(self.actor, name))


class ScriptedReplica:
    """A replica of one server, which may be dead."""

    def __init__(self, name, calls, *, dead=False):
        self.name, self.calls, self.dead = name, calls, dead
        self.servers = [SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: name))]
        self.workers, self._server_address, self._server_handle = [], f"{name}:1", name
        for method in ("abort_all_requests", "resume_generation", "sleep"):
            setattr(self, method, self._called(method))

    def _called(self, method):
        async def call(**_):
            if self.dead:
                raise ActorDiedError
            self.calls.append((method, self.name))

        return call


@pytest.fixture
def servers(monkeypatch):
    """Return the servers a and b behind verl's load balancer, with the calls that they get."""
    monkeypatch.setattr(replacing.ray, "get", lambda found: found)
    calls = []
    replicas = [ScriptedReplica(name, calls) for name in "ab"]
    addresses = [replica._server_address for replica in replicas]
    manager = SimpleNamespace(
        get_replicas=lambda: replicas,
        server_addresses=addresses,
        global_load_balancer=Here(GlobalRequestLoadBalancer(dict.fromkeys(addresses))),
    )
    made = Servers(manager)
    made.calls, made.balancer, made.replicas = calls, manager.global_load_balancer.actor, replicas
    return made


def test_the_load_balancer_forgets_the_requests_of_a_dead_worker(servers):
    for number in range(5):
        servers.balancer.acquire_server(f"of the dead {number}")
    servers.clear({})
    found = servers.balancer.get_status()
    assert found["servers"] == {"a:1": 0, "b:1": 0}
    assert not servers.balancer._request_id_to_server
    assert servers.calls == [
        ("abort_all_requests", "a"),
        ("abort_all_requests", "b"),
        ("resume_generation", "a"),
        ("resume_generation", "b"),
    ]


def test_all_that_live_do_as_they_are_asked_though_one_has_died(servers):
    servers.replicas[0].dead = True
    with pytest.raises(ActorDiedError):
        servers.sleep({})
    assert servers.calls == [("sleep", "b")]
    servers.sleep({"a"})
    servers.clear({"a"})
    assert [name for _, name in servers.calls] == ["b"] * 4


def test_what_a_dead_server_left_is_ended_once_before_it_is_replaced(servers, monkeypatch):
    rooms, killed = [], []
    monkeypatch.setattr(replacing.ray, "kill", killed.append)
    monkeypatch.setattr(replacing, "read_actors", list)

    async def call(make_room, left):
        rooms.append(left)

    async def launch():
        servers.calls.append("launch")
        dead.servers = [SimpleNamespace(_actor_id=SimpleNamespace(hex=lambda: "new"))]

    dead, _ = servers.replicas
    dead.workers = [SimpleNamespace(__ray_call__=SimpleNamespace(remote=call))]
    dead.launch_servers = launch
    left = [Process(1, 1.0)]
    servers._left = {"a": left, "b": []}
    servers.end({"a"})
    assert rooms == [left]
    assert len(killed) == 1
    assert servers.handles.keys() == {"a", "b"}  # it is still to be replaced
    monkeypatch.setattr(servers, "remember", lambda: None)
    servers.replace({"a"})
    assert rooms == [left, []]
    assert servers.calls == ["launch", ("sleep", "a")]
    assert servers.handles.keys() == {"new", "b"}
