"""Workers of a real Ray that die, with what they leave to others, and new ones."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import ray
from omegaconf import OmegaConf

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.rollout.env_resources import open_retrievers
from docagent_rl.training.agent_loop import starting
from docagent_rl.training.agent_loop.manager import DocAgentLoopManager

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def running_ray(warm_python):
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        ray.init(address="local", num_cpus=3, **quiet)
    yield
    ray.shutdown()


class SearchingWorker:
    """A worker that opens its retrievers with its first search, as an agent worker does."""

    def __init__(self, run, *_):
        self.section = DocAgentConfig.parse(plain_section(run.docagent))
        self.opened = None

    def set_up(self, *_):
        pass

    def pid(self):
        return os.getpid()

    async def search(self, query):
        if self.opened is None:
            store = self.section.open_store()
            self.opened = open_retrievers(self.section, store, running=True)
        return [await each.search(query, doc_id=None, top_k=3) for each in self.opened]


@pytest.fixture
def run(recipe, world):
    """Return a run with two workers, whose retriever and part of a hybrid search in actors."""
    made = recipe(
        "vrag_rl_qwen2_5_vl_7b",
        f"docagent.workspace={world.root}",
        f"docagent.store={world.root / 'store'}",
        "actor_rollout_ref.rollout.agent.num_workers=2",
    )
    service = {"num_cpus": 0.1, "threads": 1, "cached": 0}
    actor = {"kind": "bm25", "backend": "ray", "service": service, "deadline_s": 20}
    actor["index"] = str(world.root / "index")
    OmegaConf.update(made, "docagent.retriever", actor, merge=False)
    hybrid = {"kind": "hybrid", "deadline_s": 20, "parts": {"words": actor}}
    hybrid["service"] = {"cached": 0}
    OmegaConf.update(made, "docagent.text_retriever", hybrid, merge=False)
    return made


def create(run, workers=SearchingWorker):
    manager = DocAgentLoopManager(run, None)
    manager.agent_loop_workers_class = ray.remote(workers)
    asyncio.run(manager._init_agent_loop_workers())
    return manager


def test_searches_go_on_after_the_death_of_the_worker_that_searched_first(run, world):
    query = world.samples[0].question
    manager = create(run)
    first, second = manager.workers
    found = ray.get(first.search.remote(query))
    assert all(found)
    assert ray.get(second.search.remote(query)) == found
    assert len([name for name in ray.util.list_named_actors() if "-retriever-" in name]) == 1
    os.kill(ray.get(first.pid.remote()), signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(first.pid.remote())
    time.sleep(2)  # Ray ends what a dead process has started
    assert ray.get(second.search.remote(query)) == found


class PairedWorker:
    """A worker that has started as soon as another one is starting, too."""

    def __init__(self, run, *_):
        self.folder = Path(run.docagent.run_dir)

    def set_up(self, *_):
        (self.folder / str(os.getpid())).touch()
        while len([*self.folder.iterdir()]) < 2:
            time.sleep(0.02)


def test_new_workers_start_together_and_one_that_is_late_ends_the_run(run, tmp_path, monkeypatch):
    run.docagent.run_dir = str(tmp_path)
    OmegaConf.update(run, "docagent.retriever.backend", "local")
    run.docagent.text_retriever = None
    manager = create(run, PairedWorker)
    ids = {worker._actor_id.hex() for worker in manager.workers}
    for file in tmp_path.iterdir():
        file.unlink()
    manager.replace(ids)
    new = {worker._actor_id.hex() for worker in manager.workers}
    assert len(new) == 2
    assert not new & ids
    for file in tmp_path.iterdir():
        file.unlink()
    monkeypatch.setattr(starting, "START_S", 5.0)
    with pytest.raises(InfrastructureError, match="did not start within 5 s"):
        manager.replace([*new][:1])
