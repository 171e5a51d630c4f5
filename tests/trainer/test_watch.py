from __future__ import annotations

import asyncio
import time

import pytest
import ray

from docagent_rl.errors import InfrastructureError
from docagent_rl.trainer import watch
from docagent_rl.trainer.watch import WorkerWatch, watch_while_waiting


class Worker:
    """An actor whose event loop is kept busy at will."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        time.sleep(seconds)


class Buffer:
    """Waits as verl's replay buffer does."""

    polls = 0

    def _wait_for_next_poll(self, partition_id: str, last: float) -> float:
        self.polls += 1
        return last + 1


@pytest.fixture(scope="module", autouse=True)
def _ray():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


@pytest.fixture
def workers():
    made = [ray.remote(num_cpus=0)(Worker).remote() for _ in range(2)]
    ray.get([worker.__ray_ready__.remote() for worker in made])
    yield made
    for worker in made:
        ray.kill(worker)


def until_it_fails(check, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        check()
        time.sleep(0.1)


def test_the_living_and_the_busy_are_left_alone(workers):
    found = WorkerWatch(workers)
    busy = workers[0].sleep.remote(1.0)
    began = time.monotonic()
    for _ in range(5):
        found.check()
    assert time.monotonic() - began < 0.9
    ray.get(busy)
    found.check()


def test_a_death_ends_the_waiting(workers, monkeypatch):
    monkeypatch.setattr(watch, "INTERVAL_S", 0.0)
    buffer = Buffer()
    watch_while_waiting(buffer, lambda: workers)
    assert buffer._wait_for_next_poll("train", 1.0) == 2.0
    ray.kill(workers[1])
    with pytest.raises(InfrastructureError, match="agent loop worker 1 of 2 died"):
        until_it_fails(lambda: buffer._wait_for_next_poll("train", 1.0))
    assert buffer.polls >= 1


def test_other_samplers_are_left_alone():
    sampler = object()
    watch_while_waiting(sampler, list)
