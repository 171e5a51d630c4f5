from __future__ import annotations

import asyncio
import shutil

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import composed
from docagent_rl.records.parquet import write_parquet
from docagent_rl.training.nodes.sight import PACKAGES, look
from tests.chat_server import ChatServer, serving

RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture
def workspace(world, tmp_path):
    for name in ("store", "index"):
        shutil.copytree(world.root / name, tmp_path / name)
    for split in ("train", "val"):
        write_parquet(world.records, tmp_path / "data" / f"{split}.parquet")
    (tmp_path / "models" / "tiny_vrag_rl").mkdir(parents=True)
    (tmp_path / "models" / "tiny_vrag_rl" / "config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def config(workspace):
    def make(*overrides):
        found = composed(RECIPE, ["+profile=cpu", f"docagent.workspace={workspace}", *overrides])
        OmegaConf.resolve(found)
        return found

    return make


def test_a_node_that_has_everything(config, workspace):
    sight = look(config(), False)
    assert sight.problems == ()
    model = f"{workspace}/models/tiny_vrag_rl"
    assert set(sight.seen) == {
        f"docagent.store={workspace}/store",
        f"docagent.retriever.index={workspace}/index",
        f"data.train_files={workspace}/data/train.parquet",
        f"data.val_files={workspace}/data/val.parquet",
        f"actor_rollout_ref.model.path={model}",
        *(f"the package {name}" for name in PACKAGES),
    }


def test_a_critic_and_an_embedder_are_looked_for(config, workspace):
    sight = look(config("critic.enable=true", f"docagent.advantage.embedder.model={workspace}/bge"), True)
    assert f"critic.model.path={workspace}/models/tiny_vrag_rl" in sight.seen
    (problem,) = sight.problems
    assert problem == f"docagent.advantage.embedder.model={workspace}/bge: No such file or directory"


def test_everything_that_is_missing_is_told(config, workspace):
    for name in ("store", "index", "data", "models"):
        shutil.rmtree(workspace / name)
    (workspace / "file").touch()
    judge = [
        "docagent.judge.kind=openai",
        "docagent.judge.model=m",
        "docagent.judge.base_url=http://192.0.2.1/v1",
        "docagent.judge.api_key_env=NODES_HAVE_NONE",
    ]
    problems = look(config(*judge, f"docagent.run_dir={workspace}/file/run"), False).problems
    text = "\n".join(problems)
    for part in (
        f"docagent.store={workspace}/store: ",
        f"docagent.retriever.index={workspace}/index: No such file",
        f"data.train_files={workspace}/data/train.parquet: No such file",
        f"data.val_files={workspace}/data/val.parquet: No such file",
        f"actor_rollout_ref.model.path={workspace}/models/tiny_vrag_rl: No such file",
        f"docagent.run_dir={workspace}/file/run",
        "NODES_HAVE_NONE",
    ):
        assert part in text


def test_search_servers_are_asked(config, workspace):
    http = ["docagent.retriever.backend=http", "docagent.retriever.service.url=http://127.0.0.1:9"]
    sight = look(config(*http), False)
    (problem,) = sight.problems
    assert problem.startswith("docagent.retriever.service.url=http://127.0.0.1:9: ")
    assert not any("index" in name for name in sight.seen)


def test_services_are_asked(config):
    async def play():
        async with serving(ChatServer(["<judge>true</judge>"])) as server:
            url = server.url
            reader = "{model: m, base_url: 'http://127.0.0.1:9/v1', attempts: 1, check_s: 2}"
            make = config(
                "docagent.judge.kind=openai",
                "docagent.judge.model=m",
                "docagent.judge.attempts=1",
                f"docagent.judge.base_url={url}",
                f"+docagent.roles.reader={reader}",
            )
            sight = await asyncio.to_thread(look, make, False)
            return sight, len(server.requests)

    sight, asked = asyncio.run(play())
    assert asked >= 1
    assert any("127.0.0.1:9" in problem for problem in sight.problems)
    assert not any("judge" in problem for problem in sight.problems), sight.problems
