from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import ray

from docagent_rl.watch.actors import read_actors
from docagent_rl.watch.engines import Engines
from tests.watch.conftest import PATIENCE_S, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("running_ray")]

ENGINE = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"
LONG_S = 1000.0
"""Beyond the patience of the engines here."""


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

    async def load(self, folder: Path) -> None:
        """Hold the event loop, as vLLM does while it loads a model, until there is a file `loaded`."""
        (folder / "loading").touch()
        while not (folder / "loaded").exists():
            time.sleep(0.02)
        (folder / "loading").unlink()
        (folder / "loaded").unlink()


@pytest.fixture
def server():
    made = ray.remote(vLLMHttpServer).options(num_cpus=0, name="vllm_server_0_0").remote()
    yield made
    ray.kill(made)


def asked_and_answered(engines: Engines) -> bool:
    """Look; whether every engine has answered a question."""
    assert engines.look(read_actors()) is None
    return bool(engines._questions) and all(asked.answered for asked in engines._questions.values())


def told(engines: Engines) -> str:
    return until(lambda: engines.look(read_actors()))


def test_an_engine_that_answers_is_left_alone(server, clock):
    ray.get(server.launch.remote())
    engines = Engines(2.0)
    for _ in range(2):
        until(lambda: asked_and_answered(engines))
        clock.now += LONG_S


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
    # a last look waits for the answer, and asks anew where nobody has read an earlier one
    assert "EngineDeadError" in Engines(None).look(read_actors(), wait_s=PATIENCE_S)
    assert "EngineDeadError" in earlier.look(read_actors(), wait_s=PATIENCE_S)


def test_a_stopped_engine_hangs_and_a_slow_one_does_not(server, clock):
    pid = ray.get(server.launch.remote())
    every = strict, patient, endless = Engines(2.0), Engines(2 * LONG_S), Engines(None)
    for engines in every:
        until(lambda engines=engines: asked_and_answered(engines))
    os.kill(pid, signal.SIGSTOP)
    for engines in every:
        until(lambda engines=engines: not asked_and_answered(engines))
    clock.now += LONG_S
    assert "docagent.watch.engine_timeout_s=2" in told(strict)
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
    # a question that was put before may have its answer still
    until(lambda: not asked_and_answered(engines))
    clock.now += LONG_S
    assert "vllm_server_0_0" in told(engines)
    loaded.touch()
    ray.get(busy)
