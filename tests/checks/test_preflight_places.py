from __future__ import annotations

import inspect

import pytest

from docagent_rl.checks.preflight_places import POOL_CPUS, STANDALONE_CPUS, bookings, check_places
from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError

RECIPE = "vrag_rl_qwen2_5_vl_7b"
CPUS, GPUS = "ray_kwargs.ray_init.num_cpus", "ray_kwargs.ray_init.num_gpus"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def make(*overrides):
    return composed(RECIPE, ["+profile=cpu", *overrides])


def test_what_verl_books_is_counted():
    numbers = {b.what: (b.cpus, b.gpus) for b in bookings(make())}
    assert numbers == {
        "the transfer queue's controller": (1, 0),
        "storage of the transfer queue": (1, 0),
        "workers that train": (3, 1),
        "actors that are starting": (1, 0),
    }


def test_the_numbers_are_those_of_verl():
    from verl.single_controller.ray.base import ResourcePoolManager
    from verl.workers.rollout.replica import RolloutReplica

    assert ResourcePoolManager.__dataclass_fields__["max_colocate_count"].default == POOL_CPUS
    assert f"max_colocate_count={STANDALONE_CPUS}" in inspect.getsource(RolloutReplica.init_standalone)


def test_actors_that_search_are_counted():
    service = "docagent.retriever.service"
    config = make(
        "docagent.retriever.backend=ray",
        f"{service}.shards=2",
        f"{service}.replicas=3",
        f"{service}.num_cpus=0.5",
    )
    (booking,) = [b for b in bookings(config) if "docagent.retriever" in b.what]
    assert (booking.cpus, booking.gpus) == (3, 0)


def test_just_enough_is_enough():
    check_places(make(f"{CPUS}=6"))


@pytest.mark.parametrize(
    ("overrides", "messages"),
    [
        ([f"{CPUS}=1"], ["start with 1 CPU and the run books 6", f"set {CPUS}=6 or more"]),
        ([f"{CPUS}=5"], ["start with 5 CPU and the run books 6"]),
        (
            [f"{CPUS}=8", "transfer_queue.backend.SimpleStorage.num_data_storage_units=8"],
            ["books 13", "8 for storage of the transfer queue"],
        ),
        (
            ["trainer.n_gpus_per_node=2"],
            ["start with 1 GPU and the run books 2", "2 for workers that train", "trainer.n_gpus_per_node"],
        ),
        (
            [f"{GPUS}=null"],
            ["start with 0 GPU and the run books 1"],
        ),
        (
            ["reward.reward_model.enable_resource_pool=true", "reward.reward_model.nnodes=1"],
            ["books 30", "24 for the reward model (reward.reward_model.n_gpus_per_node times"],
        ),
        (
            [
                "trainer.v1.trainer_mode=docagent_separate_async",
                "actor_rollout_ref.rollout.nnodes=1",
                "actor_rollout_ref.rollout.n_gpus_per_node=3",
                f"{CPUS}=11",
            ],
            ["books 12", "6 for rollout servers of their own"],
        ),
    ],
)
def test_too_few_places_are_named_before_ray_starts(overrides, messages):
    with pytest.raises(UserError) as error:
        check_places(make(*overrides))
    for message in messages:
        assert message in str(error.value)


def test_a_ray_that_runs_already_is_left_alone():
    check_places(make(f"{CPUS}=1", "+ray_kwargs.ray_init.address=192.0.2.1:6379"))


def test_several_nodes_without_a_ray_over_them():
    with pytest.raises(
        UserError, match=r"trainer\.nnodes=2: the run books 2 GPU .*which has 1: start Ray on"
    ):
        check_places(make("trainer.nnodes=2"))
    check_places(make("trainer.nnodes=2", f"{GPUS}=2"))
