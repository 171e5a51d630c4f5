from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest
import ray

from docagent_rl.watch.actors import read_actors
from docagent_rl.watch.engines import Engines

pytestmark = pytest.mark.slow

ENGINE = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"


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
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", ENGINE, stdin=pipe, stdout=pipe)
        self.engine = Engine(process)
        return process.pid

    async def collective_rpc(self, method: str) -> None:
        await self.engine.collective_rpc(method)

    async def load(self, seconds: float) -> None:
        time.sleep(seconds)  # vLLM loads a model on the event loop


@pytest.fixture(scope="module", autouse=True)
def _ray():
    ray.init(
        address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False
    )
    yield
    ray.shutdown()


@pytest.fixture
def server():
    made = ray.remote(vLLMHttpServer).options(num_cpus=0, name="vllm_server_0_0").remote()
    yield made
    ray.kill(made)


def look_until(engines: Engines, seconds: float) -> str | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if told := engines.look(read_actors()):
            return told
        time.sleep(0.1)
    return None


def test_an_engine_that_answers_is_left_alone(server):
    ray.get(server.launch.remote())
    assert look_until(Engines(1.0), 3.0) is None


def test_a_dead_engine_in_a_living_server_is_noticed(server):
    pid = ray.get(server.launch.remote())
    engines = Engines(300.0)
    assert look_until(engines, 1.0) is None
    os.kill(pid, signal.SIGKILL)
    told = look_until(engines, 20.0)
    assert told.startswith("the vLLM engine of vLLMHttpServer vllm_server_0_0 (process ")
    assert "died (EngineDeadError)" in told
    assert told.endswith("Start again: the run goes on from its last checkpoint.")


def test_a_last_look_waits_for_the_answer(server):
    pid = ray.get(server.launch.remote())
    os.kill(pid, signal.SIGKILL)
    time.sleep(1.0)
    assert "died" in Engines(300.0).look(read_actors(), wait_s=20.0)


def test_a_last_look_asks_anew(server):
    """An engine that dies behind an answer that nobody has read."""
    pid, engines = ray.get(server.launch.remote()), Engines(None)
    assert engines.look(read_actors()) is None
    ray.get(server.collective_rpc.remote("check_health"))
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    assert "EngineDeadError" in engines.look(read_actors(), wait_s=10)


def test_a_stopped_engine_hangs_and_a_slow_one_does_not(server):
    pid = ray.get(server.launch.remote())
    patient, strict = Engines(300.0), Engines(2.0)
    assert look_until(strict, 1.0) is None
    os.kill(pid, signal.SIGSTOP)
    told = look_until(strict, 20.0)
    assert "hangs: no answer for" in told
    assert "docagent.watch.engine_timeout_s=2" in told
    assert look_until(patient, 1.0) is None
    assert look_until(Engines(None), 1.0) is None
    os.kill(pid, signal.SIGCONT)
    assert look_until(Engines(2.0), 3.0) is None


def test_a_server_that_loads_its_model_is_left_alone_and_a_stopped_one_not(server):
    engines = Engines(1.0)
    assert look_until(engines, 0.5) is None
    loading = server.load.remote(3.0)
    assert look_until(engines, 2.5) is None
    ray.get(loading)
    ray.get(server.launch.remote())
    assert look_until(engines, 1.0) is None
    busy = server.load.remote(12.0)
    assert "hangs" in (look_until(engines, 12.0) or "")
    ray.get(busy)
