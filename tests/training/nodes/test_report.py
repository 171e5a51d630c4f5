from __future__ import annotations

import asyncio
import shutil

import pytest
from omegaconf import OmegaConf

from docagent_rl.samples.parquet import write_parquet
from docagent_rl.training.nodes.report import PACKAGES, inspect_node
from tests.chat_server import ChatServer, serving

RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture
def workspace(world, tmp_path):
    for name in ("store", "index"):
        shutil.copytree(world.root / name, tmp_path / name)
    for split in ("train", "val"):
        write_parquet(world.samples, tmp_path / "data" / f"{split}.parquet")
    (tmp_path / "models" / "tiny_vrag_rl").mkdir(parents=True)
    (tmp_path / "models" / "tiny_vrag_rl" / "config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def config(workspace, recipe):
    def make(*overrides):
        found = recipe(RECIPE, f"docagent.workspace={workspace}", *overrides)
        OmegaConf.resolve(found)
        return found

    return make


JUDGE = ["docagent.judge.kind=openai", "docagent.judge.model=m", "docagent.judge.attempts=1"]
NOWHERE = "http://127.0.0.1:9"


def test_a_node_that_has_everything_but_an_embedder(config, workspace):
    embedder = f"docagent.advantage.embedder.model={workspace}/bge"
    report = inspect_node(config("critic.enable=true", embedder), True)
    (problem,) = report.problems
    assert problem.startswith(f"{embedder}: ")
    assert set(report.seen) == {
        f"docagent.store={workspace}/store",
        f"docagent.retriever.index={workspace}/index",
        f"data.train_files={workspace}/data/train.parquet",
        f"data.val_files={workspace}/data/val.parquet",
        f"actor_rollout_ref.model.path={workspace}/models/tiny_vrag_rl",
        f"critic.model.path={workspace}/models/tiny_vrag_rl",
        *(f"the package {name}" for name in PACKAGES),
    }


def test_everything_that_is_missing_is_told(config, workspace):
    for name in ("store", "index", "data", "models"):
        shutil.rmtree(workspace / name)
    (workspace / "file").touch()
    key = ["docagent.judge.base_url=http://192.0.2.1/v1", "docagent.judge.api_key_env=NODES_HAVE_NONE"]
    problems = inspect_node(config(*JUDGE, *key, f"docagent.run_dir={workspace}/file/run"), False).problems
    data = [f"data.{split}_files={workspace}/data/{split}.parquet: " for split in ("train", "val")]
    folders = [f"docagent.store={workspace}/store: ", f"docagent.retriever.index={workspace}/index: "]
    others = [f"actor_rollout_ref.model.path={workspace}/models/tiny_vrag_rl: ", "NODES_HAVE_NONE"]
    for part in (*data, *folders, *others, f"docagent.run_dir={workspace}/file/run"):
        assert any(part in problem for problem in problems), part


async def test_services_are_asked(config):
    async with serving(ChatServer(["<judge>true</judge>"])) as server:
        reader = f"{{model: m, base_url: '{NOWHERE}/v1', attempts: 1, check_s: 2}}"
        services = f"docagent.judge.base_url={server.url}", f"docagent.roles.reader={reader}"
        search = "docagent.retriever.backend=http", f"docagent.retriever.service.url={NOWHERE}"
        report = await asyncio.to_thread(inspect_node, config(*JUDGE, *services, *search), False)
    assert server.requests
    assert len(report.problems) == 2
    assert all("127.0.0.1:9" in problem for problem in report.problems)
    assert any(problem.startswith("docagent.retriever.service.url=") for problem in report.problems)
    assert not any("index" in name for name in report.seen)
