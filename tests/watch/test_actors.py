from __future__ import annotations

import os
import signal

import pytest
import ray

from docagent_rl.watch.actors import State, free_resources, read_actors, waiting_groups
from docagent_rl.watch.deaths import told_deaths
from docagent_rl.watch.places import Queue
from tests.watch.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("running_ray")]


class WorkerDict:
    """Named like verl's."""

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
    """Ray enters actors without a name in its own time."""
    return until(lambda: [actor for actor in read_actors() if actor.id == handle._actor_id.hex()])[0]


def test_the_living_have_no_death():
    actor = make(name="alive")
    pid = ray.get(actor.pid.remote())
    assert row(actor).state is State.ALIVE
    assert row(actor).pid == pid
    assert row(actor).death is None
    assert told_deaths([row(actor)]) is None


@pytest.mark.parametrize("ask", ["ray.kill", "exit_actor"])
def test_an_end_that_was_asked_for_is_no_death(ask):
    actor = make()
    ray.get(actor.pid.remote())
    if ask == "ray.kill":
        ray.kill(actor)
    else:
        actor.leave.remote()
    until(lambda: row(actor).state is State.ENDED)
    assert row(actor).death is None


def test_a_killed_process_is_a_death_with_advice():
    actor = make(name="pool_WorkerDict_0:0")
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    until(lambda: row(actor).death)
    told = told_deaths([row(actor)])
    assert "pool_WorkerDict_0:0" in told
    assert str(pid) in told
    assert "ppo_micro_batch_size_per_gpu" in told


def test_an_actor_that_cannot_start_says_why():
    actor = make(True)
    until(lambda: row(actor).death)
    assert "OSError: no such model" in told_deaths([row(actor)])


def test_what_asks_for_more_than_there_is_is_named_after_a_while(clock):
    queue = Queue(0.5)
    actor = make(num_cpus=7, name="greedy")
    group = ray.util.placement_group([{"CPU": 3}, {"CPU": 3}], name="global_pool")
    until(lambda: waiting_groups() and row(actor).state is State.WAITING)
    assert queue.overdue([row(actor)], waiting_groups(), free_resources()) is None
    clock.now += 0.6
    told = queue.overdue([row(actor)], waiting_groups(), free_resources())
    assert "greedy with 7 CPU" in told
    assert "global_pool with 2 times 3 CPU" in told
    assert "1 CPU in all" in told
    assert Queue(None).overdue([row(actor)], waiting_groups(), free_resources()) is None
    ray.util.remove_placement_group(group)
    until(lambda: not waiting_groups())
    assert "global_pool" not in queue.overdue([row(actor)], waiting_groups(), free_resources())


def test_a_slow_start_is_no_waiting_for_a_place(clock):
    started, queue = row(make()), Queue(0.5)
    queue.overdue([started], [], free_resources())
    clock.now += 1
    assert queue.overdue([started], [], free_resources()) is None
