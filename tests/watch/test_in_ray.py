"""Actors and engines of a real Ray: living, dead, slow, and without a place."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from docagent_rl.config import WatchConfig
from docagent_rl.watch import actors
from docagent_rl.watch import engines as watched_engines
from docagent_rl.watch.actors import (
    ActorState,
    Queue,
    death_messages,
    free_resources,
    read_actors,
    waiting_groups,
)
from docagent_rl.watch.deaths import Deaths
from docagent_rl.watch.engines import Engines
from docagent_rl.watch.processes import RUN_VARIABLE
from docagent_rl.watch.replaced import ReplacedParts, read_replaced
from docagent_rl.watch.run import Watch
from tests.watch.conftest import PATIENCE_S, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("running_ray")]

ENGINE = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"
LONG_S = 1000.0
"""Longer than the patience of the engines in this file."""


@pytest.fixture(scope="module")
def running_ray():
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init(address="local", num_cpus=1, **quiet)
    yield
    ray.shutdown()


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of engines and queues, which stands still unless it is moved."""
    made = SimpleNamespace(now=0.0)
    for module in (watched_engines, actors):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


class WorkerDict:
    """An actor with the name of verl's worker."""

    def __init__(self, fail: bool = False) -> None:
        if fail:
            raise OSError("no such model")

    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()


def make(*args, **options):
    return ray.remote(WorkerDict).options(**{"num_cpus": 0, **options}).remote(*args)


def row(handle):
    """Return the row of an actor once Ray lists it, since Ray lists actors without a name only
    after a while.
    """
    return until(lambda: [actor for actor in read_actors() if actor.id == handle._actor_id.hex()])[
        0
    ]


def test_the_dead_are_told_from_the_living_and_from_those_whose_end_was_asked_for():
    killed, left, dead, failed = make(), make(), make(name="pool_WorkerDict_0:0"), make(True)
    pids = ray.get([actor.pid.remote() for actor in (killed, left, dead)])
    found = row(killed)
    assert (found.state, found.pid, found.death, death_messages([found])) == (
        ActorState.ALIVE,
        pids[0],
        None,
        None,
    )
    ray.kill(killed)
    left.leave.remote()
    os.kill(pids[2], signal.SIGKILL)
    for actor in (killed, left):
        until(lambda actor=actor: row(actor).state is ActorState.ENDED)
        assert row(actor).death is None
    until(lambda: row(dead).death)
    told = death_messages([row(dead)])
    assert all(
        name in told
        for name in ("pool_WorkerDict_0:0", str(pids[2]), "ppo_micro_batch_size_per_gpu")
    )
    until(lambda: row(failed).death)
    assert "OSError: no such model" in death_messages([row(failed)])


def test_a_part_that_the_trainer_replaces_may_die_and_is_reported_if_it_was_not_replaced(
    monkeypatch,
):
    monkeypatch.setenv(RUN_VARIABLE, "replacing")
    assert read_replaced().excused(at_the_end=False) == frozenset()
    parts = ReplacedParts()
    first, second = (row(make()).id for _ in range(2))
    parts.cover([first, second])
    assert read_replaced().excused(at_the_end=False) == {first, second}
    assert read_replaced().excused(at_the_end=True) == frozenset()
    parts.note([first])
    parts.cover([])
    assert read_replaced().excused(at_the_end=False) == {first}
    assert read_replaced().excused(at_the_end=True) == {first}
    # another start of the run in a cluster that lives on
    monkeypatch.setenv(RUN_VARIABLE, "again")
    assert read_replaced().excused(at_the_end=True) == frozenset()


def test_the_watchdog_leaves_out_exactly_the_parts_that_the_trainer_replaces(monkeypatch, tmp_path):
    monkeypatch.setenv(RUN_VARIABLE, "watched")
    covered, other = make(name="covered"), make(name="other")
    ids = [row(actor).id for actor in (covered, other)]
    watch = Watch(WatchConfig(), tmp_path)
    parts = ReplacedParts()
    parts.cover(ids[:1])

    def alive_deaths():
        return [actor for actor in read_actors() if actor.id in ids]

    monkeypatch.setattr("docagent_rl.watch.run.read_actors", alive_deaths)
    pids = ray.get([actor.pid.remote() for actor in (covered, other)])
    os.kill(pids[0], signal.SIGKILL)
    until(lambda: row(covered).death)
    assert watch._look() is None
    # the trainer has ended without having replaced it
    assert "covered" in watch._look(wait_s=0.1)
    parts.note(ids[:1])
    assert watch._look(wait_s=0.1) is None
    os.kill(pids[1], signal.SIGKILL)
    until(lambda: row(other).death)
    told = watch._look()
    assert "other" in told
    assert "covered" not in told


def test_what_asks_for_more_than_there_is_is_named_after_a_while(clock):
    queue, slow = Queue(0.5), Queue(0.5)
    actor, started = make(num_cpus=7, name="greedy"), row(make())
    group = ray.util.placement_group([{"CPU": 3}, {"CPU": 3}], name="global_pool")
    until(lambda: waiting_groups() and row(actor).state is ActorState.WAITING)
    assert queue.overdue([row(actor)], waiting_groups(), free_resources()) is None
    assert slow.overdue([started], {}, free_resources()) is None
    clock.now += 0.6
    told = queue.overdue([row(actor)], waiting_groups(), free_resources())
    assert all(
        part in told
        for part in ("greedy with 7 CPU", "global_pool with 2 x 3 CPU", "1 CPU in total")
    )
    assert Queue(None).overdue([row(actor)], waiting_groups(), free_resources()) is None
    # a slow start is no waiting for a place
    assert slow.overdue([started], {}, free_resources()) is None
    ray.util.remove_placement_group(group)
    until(lambda: not waiting_groups())
    assert "global_pool" not in queue.overdue([row(actor)], waiting_groups(), free_resources())


class Engine:
    """A process that answers questions, as vLLM's does behind its client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.one_at_a_time = asyncio.Lock()

    @property
    def errored(self) -> bool:
        return self.process.returncode is not None

    async def collective_rpc(self, method: str) -> list[None]:
        async with self.one_at_a_time:
            self.process.stdin.write(f"{method}\n".encode())
            assert (await self.process.stdout.readline()).decode() == f"{method}\n"
        return [None]


class vLLMHttpServer:  # noqa: N801  verl's name
    async def launch(self) -> int:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ENGINE, stdin=pipe, stdout=pipe
        )
        self.engine = Engine(process)
        return process.pid

    async def collective_rpc(self, method: str) -> None:
        await self.engine.collective_rpc(method)

    async def load(self, folder: Path) -> None:
        """Block the event loop, as vLLM does while it loads a model, until the file `loaded`
        exists.
        """
        (folder / "loading").touch()
        while not (folder / "loaded").exists():
            time.sleep(0.02)
        (folder / "loading").unlink()
        (folder / "loaded").unlink()


@pytest.fixture(scope="module")
def server(running_ray):
    made = ray.remote(vLLMHttpServer).options(num_cpus=0, name="vllm_server_0_0").remote()
    yield made
    ray.kill(made)


def asked_and_answered(engines: Engines) -> bool:
    """Look once; return whether every engine has answered a question."""
    assert engines.look(read_actors()) is None
    return bool(engines._questions) and all(asked.answered for asked in engines._questions.values())


def told(engines: Engines) -> str:
    return until(lambda: engines.look(read_actors()))


def test_a_dead_engine_in_a_living_server_is_noticed(server):
    pid = ray.get(server.launch.remote())
    engines, earlier = Engines(None), Engines(None)
    until(lambda: asked_and_answered(engines))
    assert earlier.look(read_actors()) is None
    ray.get(server.collective_rpc.remote("check_health"))
    os.kill(pid, signal.SIGKILL)
    message = told(engines)
    assert "vllm_server_0_0" in message
    assert "EngineDeadError" in message
    excused = {actor.id for actor in read_actors()}
    assert Engines(None).look(read_actors(), PATIENCE_S, excused) is None
    # a last look waits for the answer, and asks anew where nobody has read an earlier one
    for late in (Engines(None), earlier):
        assert "EngineDeadError" in late.look(read_actors(), wait_s=PATIENCE_S)


def asked(deaths):
    """Return whether the trainer has answers of servers that it has not read yet."""
    return ray.wait([*deaths._asked.values()], timeout=PATIENCE_S)[0]


def test_the_trainer_finds_the_dead_among_its_servers_and_workers_and_no_others(server):
    pid = ray.get(server.launch.remote())
    workers = {row(actor).id: actor for actor in (make(), make(), make())}
    dead, left, _ = workers
    servers, deaths = {server._actor_id.hex(): server}, Deaths()

    def find():
        return deaths.find(servers, workers)

    for _ in range(3):
        time.sleep(0.2)
        assert find() == {}
    workers[left].leave.remote()  # as asked
    until(lambda: row(workers[left]).state is ActorState.ENDED)
    os.kill(pid, signal.SIGSTOP)  # it hangs, which the watchdog reports
    time.sleep(0.5)
    assert find() == {}
    os.kill(pid, signal.SIGCONT)
    victim = ray.get(workers[dead].pid.remote())
    os.kill(victim, signal.SIGKILL)
    (found,) = until(find).items()
    assert found[0] == dead
    assert f"process {victim}" in found[1]
    until(lambda: asked(deaths))
    os.kill(pid, signal.SIGKILL)
    # an answer from before the death is not used
    until(lambda: "engine" in deaths.find(servers, (), PATIENCE_S).get(next(iter(servers)), ""))
    until(lambda: find().keys() == {dead, *servers})


def test_a_stopped_engine_hangs_and_a_slow_one_does_not(server, clock):
    pid = ray.get(server.launch.remote())
    every = strict, patient, endless = Engines(2.0), Engines(2 * LONG_S), Engines(None)
    for _ in range(2):  # who answers is left alone
        clock.now += LONG_S
        for engines in every:
            until(lambda engines=engines: asked_and_answered(engines))
    os.kill(pid, signal.SIGSTOP)
    for engines in every:
        until(lambda engines=engines: not asked_and_answered(engines))
    clock.now += LONG_S
    assert "docagent.watch.engine_timeout_s=2" in told(strict)
    excused = {actor.id for actor in read_actors()}
    assert "hangs" in until(lambda: strict.look(read_actors(), excused=excused))
    assert patient.look(read_actors()) is None
    assert endless.look(read_actors()) is None
    os.kill(pid, signal.SIGCONT)
    until(lambda: asked_and_answered(patient))


def test_a_server_that_loads_its_model_is_left_alone_and_a_stopped_one_not(server, clock, tmp_path):
    engines = Engines(2.0)
    loading, loaded = tmp_path / "loading", tmp_path / "loaded"
    busy = server.load.remote(tmp_path)
    until(loading.exists)
    for _ in range(3):
        assert engines.look(read_actors()) is None
        clock.now += LONG_S
    loaded.touch()
    ray.get(busy)
    ray.get(server.launch.remote())
    until(lambda: asked_and_answered(engines))
    busy = server.load.remote(tmp_path)
    until(loading.exists)

    def message():
        clock.now += LONG_S
        return engines.look(read_actors())

    # a question or its state is open, whichever was put last before it stopped
    assert "vllm_server_0_0" in until(message)
    loaded.touch()
    ray.get(busy)
