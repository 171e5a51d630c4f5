from __future__ import annotations

import inspect
import logging
import socket
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from verl.single_controller.ray.base import ResourcePoolManager
from verl.workers.rollout.replica import RolloutReplica

from docagent_rl.base.errors import UserError
from docagent_rl.checks import cluster
from docagent_rl.checks.cluster import (
    POOL_CPUS,
    STANDALONE_CPUS,
    Attachment,
    attachment,
    bookings,
    check_cluster,
    check_places,
    leave_out_own_ray,
)
from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig, plain
from tests.cluster import Cluster

RECIPE = "vrag_rl_qwen2_5_vl_7b"
SHARED = "docagent.workspace=/w"
LOCAL = "http://127.0.0.1:8001/v1"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("DOCAGENT_WORKSPACE", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "ray"))
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://judge.example:8001/v1")
    monkeypatch.setattr(cluster, "ANSWER_S", 0.2)  # what listens here says nothing


@pytest.fixture
def head():
    """Something that takes connections, as the head of a cluster does."""
    with closing(socket.create_server(("", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def started(head, tmp_path):
    """`ray start` was called on this machine some time."""
    file = tmp_path / "ray" / "ray" / "ray_current_cluster"
    file.parent.mkdir(parents=True)
    file.write_text(head)
    return file


def make(*overrides):
    return OmegaConf.unsafe_merge(composed(RECIPE), OmegaConf.from_dotlist(list(overrides)))


def checked(*overrides, **sections):
    """Checked, with sections of `docagent` in the place of others."""
    config = make(*overrides)
    check_cluster(config, DocAgentConfig.parse(plain(config.docagent) | sections))


def test_a_path_that_other_machines_would_look_for_elsewhere(monkeypatch, head):
    assert attachment(make()) is None
    checked("docagent.judge.base_url=http://localhost:8001/v1")  # a run by itself
    monkeypatch.setenv("RAY_ADDRESS", head)
    checked(SHARED)
    for overrides, message in (
        ([], r"^docagent\.workspace=workspace .*docagent\.store"),
        ([SHARED, "data.train_files=[mine/a.parquet]"], r"^data\.train_files=mine/a\.parquet "),
        ([SHARED, "actor_rollout_ref.model.path=./m"], r"^actor_rollout_ref\.model\.path=\./m "),
    ):
        with pytest.raises(UserError, match=message):
            checked(*overrides)


@pytest.mark.parametrize(
    "key", ["trainer", "actor_rollout_ref.rollout", "reward.reward_model", "distillation"]
)
def test_several_nodes_need_a_path_for_all(key):
    with pytest.raises(UserError, match=rf"docagent\.workspace=workspace .*{key}\.nnodes"):
        checked(f"{key}.nnodes=2")
    checked(f"{key}.nnodes=2", SHARED)


def test_a_ray_by_its_address(head):
    found = attachment(make(given := f"ray_kwargs.ray_init.address={head}"))
    assert (found.asked, found.address.rpartition(":")[2]) == (True, head.rpartition(":")[2])
    with pytest.raises(UserError, match=r"docagent\.workspace=workspace"):
        checked(given)


def test_a_ray_left_on_this_machine_is_named(started, caplog):
    found = attachment(make())
    assert (found.source, found.asked) == (str(started), False)
    with caplog.at_level(logging.WARNING):
        checked(SHARED)
    assert str(started) in caplog.text
    # a run that sizes its Ray does not fall into another
    with pytest.raises(UserError, match=r"ray_init\.num_gpus .*RAY_ADDRESS=local"):
        checked(SHARED, "ray_kwargs.ray_init.num_gpus=1")


def test_the_variable_goes_before_what_was_left(started, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert attachment(make()) is None
    address = "192.0.2.7:6379"
    monkeypatch.setenv("RAY_ADDRESS", address)
    found = attachment(make("ray_kwargs.ray_init.address=auto"))
    assert found == Attachment(address, f"RAY_ADDRESS={address}", asked=True)


def test_a_ray_that_has_ended_and_what_is_no_address(started, monkeypatch):
    with closing(socket.create_server(("", 0))) as server:
        port = server.getsockname()[1]
    started.write_text(f"127.0.0.1:{port}")
    with pytest.raises(UserError, match=rf"{started} "):
        checked(SHARED)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere")
    with pytest.raises(UserError, match="RAY_ADDRESS=somewhere: "):
        checked(SHARED)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/v1", "http://[::1]:8001/v1", "http://0.0.0.0:8001/v1", "http://127.1.2.3/v1",
     "http://me.localhost:1/v1", "http://[::ffff:127.0.0.1]/v1", "https://LOCALHOST."],
)  # fmt: skip
def test_loopback_is_another_machine_on_every_node(url, monkeypatch):
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", url)
    with pytest.raises(UserError, match=r"docagent\.judge\.base_url=.*trainer\.nnodes=2.*DOCAGENT_JUDGE_URL"):
        checked("trainer.nnodes=2", SHARED)
    checked(SHARED)
    checked("trainer.nnodes=2", SHARED, "docagent.judge.kind=rule")  # which is not asked


def test_every_service_on_loopback_is_named():
    model = {"base_url": LOCAL, "model": "m"}
    far = {"backend": "http", "service": {"url": "http://127.0.0.1:8002"}}
    sections = {
        "roles": {"reader": model, "answer": model, "planner": {"backend": "embedded"}},
        "retriever": {"kind": "hybrid", "parts": {"far": far, "near": {"index": "/w/index"}}},
    }
    named = ["retriever.parts.far.service.url", "roles.answer.base_url", "roles.reader.base_url"]
    with pytest.raises(UserError) as caught:
        checked("trainer.nnodes=2", SHARED, **sections)
    found = [word for word in str(caught.value).split() if "=http://HOST:PORT" in word]
    assert sorted(word.partition("=")[0] for word in found) == [f"docagent.{each}" for each in named]


def test_the_profile_does_not_tell_a_running_ray_how_large_it_is(monkeypatch, head):
    config = composed(RECIPE, ["+profile=cpu"])
    leave_out_own_ray(config)
    assert config.ray_kwargs.ray_init.num_cpus == 16
    monkeypatch.setenv("RAY_ADDRESS", head)
    leave_out_own_ray(config)
    assert OmegaConf.to_container(config.ray_kwargs.ray_init).keys() == {"runtime_env"}


@pytest.mark.slow
def test_a_cluster_that_asks_for_a_token(monkeypatch, warm_python):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}
    monkeypatch.setattr(cluster, "ANSWER_S", 60.0)
    with (
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as folder,
        Cluster(Path(folder), warm_python, token) as ray,
    ):
        monkeypatch.setenv("RAY_ADDRESS", ray.address)
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        with pytest.raises(UserError, match=r"RAY_ADDRESS=.*RAY_AUTH_MODE"):
            checked(SHARED)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        checked(SHARED)


CPUS, GPUS = "ray_kwargs.ray_init.num_cpus", "ray_kwargs.ray_init.num_gpus"
SERVICE = "docagent.retriever.service"
MODEL = "reward.reward_model"


def on_cpu(*overrides):
    recipe = composed("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu"])
    return OmegaConf.unsafe_merge(recipe, OmegaConf.from_dotlist(list(overrides)))


def test_what_verl_books_is_counted():
    assert {b.part: (b.cpus, b.gpus) for b in bookings(on_cpu())} == {
        "the transfer queue's controller": (1, 0),
        "storage of the transfer queue": (1, 0),
        "workers that train": (3, 1),
        "actors that are starting": (1, 0),
    }
    sizes = (f"{SERVICE}.replicas=6", f"{SERVICE}.num_cpus=0.5")
    booked = bookings(on_cpu("docagent.retriever.backend=ray", *sizes))
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
        check_places(on_cpu(*overrides))
    assert all(message in str(error.value) for message in messages)


def test_what_has_its_places_is_left_alone():
    check_places(on_cpu(f"{CPUS}=6"))  # just enough
    check_places(on_cpu(f"{CPUS}=1", "ray_kwargs.ray_init.address=192.0.2.1:6379"))  # a Ray that runs already
    check_places(on_cpu("trainer.nnodes=2", f"{GPUS}=2"))
