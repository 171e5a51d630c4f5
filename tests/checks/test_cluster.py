from __future__ import annotations

import copy
import functools
import logging
import socket
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from omegaconf import OmegaConf, open_dict

from docagent_rl.checks import cluster
from docagent_rl.checks.cluster import Attachment, attachment, check_cluster, leave_out_own_ray
from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.errors import UserError
from tests.cluster import Cluster

RECIPE = "vrag_rl_qwen2_5_vl_7b"
JUDGE = "http://judge.example:8001/v1"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("DOCAGENT_WORKSPACE", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "ray"))
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", JUDGE)
    monkeypatch.setattr(cluster, "ANSWER_S", 1.0)  # what listens here says nothing


@pytest.fixture
def head():
    """Something that takes connections, as the head of a cluster does."""
    with closing(socket.create_server(("", 0))) as server:
        yield f"192.0.2.1:{server.getsockname()[1]}", f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def started(head, tmp_path):
    """`ray start` was called on this machine some time."""
    (tmp_path / "ray" / "ray").mkdir(parents=True)
    file = tmp_path / "ray" / "ray" / "ray_current_cluster"
    file.write_text(head[1])
    return file


@functools.cache
def recipe():
    return composed(RECIPE, [])


def make(*overrides):
    """The recipe and a few values; to compose it each time takes longer than the checks."""
    with open_dict(config := copy.deepcopy(recipe())):
        config.merge_with_dotlist([text.removeprefix("+") for text in overrides])
    return config


def checked(*overrides):
    config = make(*overrides)
    check_cluster(config, DocAgentConfig.parse(plain(config.docagent)))


def test_a_run_by_itself_may_have_a_relative_workspace():
    assert attachment(make()) is None
    checked("docagent.judge.base_url=http://localhost:8001/v1")


def test_a_path_that_other_machines_would_look_for_elsewhere(monkeypatch, head):
    monkeypatch.setenv("RAY_ADDRESS", head[1])
    with pytest.raises(UserError, match=r"^docagent\.workspace=workspace .*docagent\.store"):
        checked()
    checked("docagent.workspace=/w")
    with pytest.raises(UserError, match=r"^data\.train_files=mine/a\.parquet "):
        checked("docagent.workspace=/w", "data.train_files=[mine/a.parquet]")
    with pytest.raises(UserError, match=r"^actor_rollout_ref\.model\.path=\./m "):
        checked("docagent.workspace=/w", "actor_rollout_ref.model.path=./m")


@pytest.mark.parametrize(
    "key", ["trainer", "actor_rollout_ref.rollout", "reward.reward_model", "distillation"]
)
def test_several_nodes_need_a_path_for_all(key):
    with pytest.raises(UserError, match=rf"docagent\.workspace=workspace .*{key}\.nnodes"):
        checked(f"{key}.nnodes=2")
    checked(f"{key}.nnodes=2", "docagent.workspace=/w")


def test_a_ray_by_its_address(head):
    given = f"+ray_kwargs.ray_init.address={head[1]}"
    found = attachment(make(given))
    assert found is not None
    assert found.asked
    assert found.address.endswith(head[1].rpartition(":")[2])
    with pytest.raises(UserError, match=r"docagent\.workspace=workspace"):
        checked(given)


def test_a_ray_left_on_this_machine_is_named(started, caplog):
    found = attachment(make())
    assert found is not None
    assert (found.source, found.asked) == (str(started), False)
    with caplog.at_level(logging.WARNING):
        checked("docagent.workspace=/w")
    assert str(started) in caplog.text


def test_a_run_that_sizes_its_ray_does_not_fall_into_another(started):
    with pytest.raises(UserError, match=r"ray_init\.num_gpus .*RAY_ADDRESS=local"):
        checked("docagent.workspace=/w", "+ray_kwargs.ray_init.num_gpus=1")


def test_the_variable_goes_before_what_was_left(started, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert attachment(make()) is None
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.7:6379")
    assert attachment(make("+ray_kwargs.ray_init.address=auto")) == Attachment(
        "192.0.2.7:6379", "RAY_ADDRESS=192.0.2.7:6379", asked=True
    )


def test_a_ray_that_has_ended(started):
    with closing(socket.create_server(("", 0))) as server:
        port = server.getsockname()[1]
    started.write_text(f"127.0.0.1:{port}")
    with pytest.raises(UserError, match=rf"{started} "):
        checked("docagent.workspace=/w")


def test_what_is_no_address(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "somewhere")
    with pytest.raises(UserError, match="RAY_ADDRESS=somewhere: "):
        checked("docagent.workspace=/w")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:8001/v1", "http://0.0.0.0:8001/v1",
     "http://127.1.2.3/v1", "http://me.localhost:1/v1", "http://[::ffff:127.0.0.1]/v1", "https://LOCALHOST."],
)  # fmt: skip
def test_loopback_is_another_machine_on_every_node(url, monkeypatch):
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", url)
    with pytest.raises(UserError, match=r"docagent\.judge\.base_url=.*trainer\.nnodes=2.*DOCAGENT_JUDGE_URL"):
        checked("trainer.nnodes=2", "docagent.workspace=/w")
    checked("docagent.workspace=/w")


def test_every_endpoint_on_loopback_is_named():
    config = make("trainer.nnodes=2", "docagent.workspace=/w")
    section = plain(config.docagent)
    section["roles"] = {
        "reader": {"base_url": "http://localhost:8002/v1", "model": "m"},
        "answer": {"base_url": "http://[::1]:8003/v1", "model": "m"},
        "planner": {"backend": "embedded"},
    }
    with pytest.raises(UserError) as caught:
        check_cluster(config, DocAgentConfig.parse(section))
    for key in ("docagent.roles.reader.base_url", "docagent.roles.answer.base_url"):
        assert f"{key}=http://HOST:PORT/v1" in str(caught.value)
    assert "judge" not in str(caught.value)


def test_a_search_server_on_loopback_is_named():
    config = make("trainer.nnodes=2", "docagent.workspace=/w")
    section = plain(config.docagent)
    http = {"backend": "http", "service": {"url": "http://127.0.0.1:8002"}}
    section["retriever"] = {"kind": "hybrid", "parts": {"far": http, "near": {"index": "/w/index"}}}
    with pytest.raises(UserError) as caught:
        check_cluster(config, DocAgentConfig.parse(section))
    assert "set docagent.retriever.parts.far.service.url=http://HOST:PORT" in str(caught.value)
    assert "/v1" not in str(caught.value)


def test_a_judge_that_is_not_asked_may_be_anywhere(monkeypatch):
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://127.0.0.1:8001/v1")
    checked("trainer.nnodes=2", "docagent.workspace=/w", "docagent.judge.kind=rule")


def test_the_profile_does_not_tell_a_running_ray_how_large_it_is(monkeypatch, head):
    config = composed(RECIPE, ["+profile=cpu"])
    leave_out_own_ray(config)
    assert config.ray_kwargs.ray_init.num_cpus == 16
    monkeypatch.setenv("RAY_ADDRESS", head[1])
    leave_out_own_ray(config)
    settings = OmegaConf.to_container(config.ray_kwargs.ray_init)
    assert settings.keys() == {"runtime_env"}


@pytest.mark.slow
def test_a_cluster_that_asks_for_a_token(monkeypatch):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}
    with (
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as folder,
        Cluster(Path(folder), Path(sys.executable), token) as ray,
    ):
        monkeypatch.setenv("RAY_ADDRESS", ray.address)
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        with pytest.raises(
            UserError, match=r"which RAY_ADDRESS=.* names, asks for a token: set RAY_AUTH_MODE"
        ):
            checked("docagent.workspace=/w")
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        checked("docagent.workspace=/w")
