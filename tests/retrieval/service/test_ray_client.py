"""Search actors on a real Ray cluster."""

import asyncio
import os
import signal
import threading
from contextlib import suppress

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.base import ServiceFailedError
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.opening import (
    open_before_run,
    open_retriever,
    start_search_actors,
)
from docagent_rl.watch.actors import death_messages, read_actors
from tests.retrieval.service.conftest import OPTIONS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(ray_head):
    import ray

    ray.init(address=ray_head, log_to_driver=False)
    yield ray
    ray.shutdown()


def config_of(index, **service):
    service = {"num_cpus": 0.1, "threads": 1, **service}
    return RetrieverConfig(index=index, backend="ray", service=service, deadline_s=300)


@pytest.fixture(scope="module")
def actors(cluster, store, saved):
    return open_retriever(config_of(saved, replicas=2), store)


class Poisoned:
    """A retriever that fails at one query and hangs at another."""

    def __init__(self, store, index=None):
        self.ref = next(iter(store.pages()))

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        for query in queries:
            if query == "poison":
                raise ZeroDivisionError("poison")
            if query == "slow":
                threading.Event().wait()
        return [[Hit(self.ref, 1.0)] for _ in queries]


def test_replicas_answer_as_one_retriever(actors, bm25):
    queries = ["cat", "birds sing", "", "unheard", "cat \ud83d \x00"]
    for options in OPTIONS:
        assert actors.search(queries, **options) == bm25.search(queries, **options)
    with pytest.raises(UserError, match="'nobody'"):
        actors.search(["cat"], doc_id="nobody", top_k=1)


def test_all_processes_of_a_run_share_the_actors(cluster, actors, store, saved):
    @cluster.remote(num_cpus=0)
    def elsewhere(config, store):
        return len(open_retriever(config, store).search(["cat"], top_k=2)[0])

    assert cluster.get(elsewhere.remote(config_of(saved, replicas=2), store)) == 2
    assert len(cluster.util.list_named_actors(all_namespaces=True)) == 2


async def test_killed_actors_are_replaced_and_no_search_is_lost_or_doubled(cluster, actors, bm25):
    service = RetrieverService(actors, deadline_s=300, backoff_s=0.05)
    handles = actors._actors
    victims = [(await handle.health.remote())["pid"] for handle in handles]
    queries = [("cat", "birds sing", "grow table")[n % 3] + f" {n}" for n in range(90)]

    async def kill():
        while not notes:
            await asyncio.sleep(0.005)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    with noting() as notes:
        searches = [service.search(query, doc_id=None, top_k=3) for query in queries]
        found, _ = await asyncio.gather(asyncio.gather(*searches), kill())
    assert found == bm25.search(queries, top_k=3)
    assert len(notes) == len(queries)
    pids = set()
    async with asyncio.timeout(300):
        while len(pids) < 2:
            with suppress(cluster.exceptions.RayError):
                pids = {(await handle.health.remote())["pid"] for handle in handles}
    assert not pids & set(victims)
    # the watch of a run takes no offence
    assert death_messages(read_actors()) is None


async def test_a_query_that_breaks_the_retriever_is_at_fault_and_an_actor_that_hangs_is_replaced(
    cluster, store
):
    service = {"num_cpus": 0.1, "threads": 1, "timeout_s": 2.0, "replicas": 1}
    config = RetrieverConfig(kind=f"{__name__}:Poisoned", backend="ray", service=service)
    retriever = open_retriever(config, store, "docagent.text_retriever")
    (handle,) = retriever._actors
    with noting() as notes:
        for query in ("poison", "c" * (1 << 20)):
            found = RetrieverService(retriever, attempts=1000, deadline_s=600)
            assert await found.search(query, doc_id=None, top_k=2) == []
    assert ["ZeroDivisionError" in notes[0].refused, "32768" in notes[1].refused] == [True, True]
    before = (await handle.health.remote())["pid"]
    with pytest.raises(ServiceFailedError):
        await retriever.asearch(["slow"], top_k=1)
    # asked as a run would ask, whose next searches wait for it
    again = RetrieverService(retriever, attempts=1000, deadline_s=600, backoff_s=0.1)
    assert await again.search("fine", doc_id=None, top_k=1)
    assert (await handle.health.remote())["pid"] != before
    assert death_messages(read_actors()) is None


async def test_parts_in_actors_outlive_an_actor_of_their_hybrid(cluster, store, saved):
    hybrid = config_of(None).model_copy(
        update={"kind": "hybrid", "parts": {"words": config_of(saved)}}
    )
    local = config_of(saved).model_copy(update={"backend": Backend.LOCAL})
    assert start_search_actors({"docagent.retriever": local}, lambda: pytest.fail("opened")) == []
    parts, whole = start_search_actors({"docagent.text_retriever": hybrid}, lambda: store)
    (part,), (actor,) = parts._actors, whole._actors
    before = (await part.health.remote())["pid"]
    victim = (await actor.health.remote())["pid"]
    os.kill(victim, signal.SIGKILL)
    service = RetrieverService(whole, deadline_s=300, backoff_s=0.05)
    assert await service.search("cat", doc_id=None, top_k=2)
    assert (await part.health.remote())["pid"] == before


def test_what_actors_cannot_open_is_one_error(cluster, store, saved, tmp_path, monkeypatch):
    with pytest.raises((UserError, InfrastructureError), match=r"missing|cannot start") as caught:
        open_retriever(config_of(tmp_path / "missing"), store)
    assert "\n" not in str(caught.value)
    # this machine has no GPU that an actor could share
    sharing = config_of(saved, shared_gpu_gib=5)
    with pytest.raises(InfrastructureError, match=r"service\.shared_gpu_gib=5: .* has no GPU"):
        open_retriever(sharing, store)
    open_before_run(config_of(saved, replicas=3), store)
    monkeypatch.setattr(cluster, "is_initialized", lambda: False)
    with pytest.raises(InfrastructureError):
        open_retriever(config_of(saved), store)
