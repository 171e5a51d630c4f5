from __future__ import annotations

import logging
import socket
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks import cluster
from docagent_rl.checks.cluster import Attachment, attachment, check_cluster, leave_out_own_ray
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
    return OmegaConf.merge(composed(RECIPE), OmegaConf.from_dotlist(list(overrides)))


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
def test_a_cluster_that_asks_for_a_token(monkeypatch):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}
    monkeypatch.setattr(cluster, "ANSWER_S", 60.0)
    with (
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as folder,
        Cluster(Path(folder), Path(sys.executable), token) as ray,
    ):
        monkeypatch.setenv("RAY_ADDRESS", ray.address)
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        with pytest.raises(UserError, match=r"RAY_ADDRESS=.*RAY_AUTH_MODE"):
            checked(SHARED)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        checked(SHARED)
