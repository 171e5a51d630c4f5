from __future__ import annotations

import inspect

import pytest
from omegaconf import OmegaConf
from verl.single_controller.ray.base import ResourcePoolManager
from verl.workers.rollout.replica import RolloutReplica

from docagent_rl.base.errors import UserError
from docagent_rl.checks.places import POOL_CPUS, STANDALONE_CPUS, bookings, check_places
from docagent_rl.checks.recipe_check import composed

CPUS, GPUS = "ray_kwargs.ray_init.num_cpus", "ray_kwargs.ray_init.num_gpus"
SERVICE = "docagent.retriever.service"
MODEL = "reward.reward_model"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def make(*overrides):
    recipe = composed("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu"])
    return OmegaConf.merge(recipe, OmegaConf.from_dotlist(list(overrides)))


def test_what_verl_books_is_counted():
    assert {b.part: (b.cpus, b.gpus) for b in bookings(make())} == {
        "the transfer queue's controller": (1, 0),
        "storage of the transfer queue": (1, 0),
        "workers that train": (3, 1),
        "actors that are starting": (1, 0),
    }
    sizes = (f"{SERVICE}.shards=2", f"{SERVICE}.replicas=3", f"{SERVICE}.num_cpus=0.5")
    booked = bookings(make("docagent.retriever.backend=ray", *sizes))
    assert [(b.cpus, b.gpus) for b in booked if "docagent.retriever" in b.part] == [(3, 0)]
    assert ResourcePoolManager.__dataclass_fields__["max_colocate_count"].default == POOL_CPUS
    assert f"max_colocate_count={STANDALONE_CPUS}" in inspect.getsource(RolloutReplica.init_standalone)


@pytest.mark.parametrize(
    ("overrides", "messages"),
    [
        ([f"{CPUS}=1"], [" 1 CPU ", "books 6", f"{CPUS}=6"]),
        ([f"{CPUS}=5"], [" 5 CPU ", "books 6"]),
        ([f"{CPUS}=8", "transfer_queue.backend.SimpleStorage.num_data_storage_units=8"],
         ["books 13", "8 for storage of the transfer queue"]),
        (["trainer.n_gpus_per_node=2"],
         [" 1 GPU ", "books 2", "2 for workers that train", "trainer.n_gpus_per_node"]),
        ([f"{GPUS}=null"], [" 0 GPU ", "books 1"]),
        ([f"{MODEL}.enable_resource_pool=true", f"{MODEL}.nnodes=1"],
         ["books 30", f"24 for the reward model ({MODEL}"]),
        (["trainer.v1.trainer_mode=docagent_separate_async", "actor_rollout_ref.rollout.nnodes=1",
          "actor_rollout_ref.rollout.n_gpus_per_node=3", f"{CPUS}=11"],
         ["books 12", "6 for rollout servers of their own"]),
        (["trainer.nnodes=2"], ["trainer.nnodes=2: ", "books 2 GPU", " 1: "]),
    ],
)  # fmt: skip
def test_too_few_places_are_named_before_ray_starts(overrides, messages):
    with pytest.raises(UserError) as error:
        check_places(make(*overrides))
    assert all(message in str(error.value) for message in messages)


def test_what_has_its_places_is_left_alone():
    check_places(make(f"{CPUS}=6"))  # just enough
    check_places(make(f"{CPUS}=1", "ray_kwargs.ray_init.address=192.0.2.1:6379"))  # a Ray that runs already
    check_places(make("trainer.nnodes=2", f"{GPUS}=2"))
