"""The files and services of a run that each node can reach."""

import asyncio
import json
import shutil

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.training.nodes import (
    PACKAGES,
    NodeReport,
    inspect_node,
    of_files,
    of_folder,
    of_store,
    problem_message,
    usable_nodes,
)
from tests.chat_server import ChatServer, serving


@pytest.fixture
def copied(world, tmp_path):
    shutil.copytree(world.root / "store", tmp_path / "store")
    shutil.copytree(world.root / "index", tmp_path / "index")
    return tmp_path


def test_a_store_that_lost_a_document_or_a_page(copied):
    before = of_store(copied / "store")
    first = min((copied / "store" / "documents").glob("*.json"))
    page = json.loads(first.read_text())["pages"][0]["image"]
    next((copied / "store" / "objects").rglob(f"{page}.jpg")).unlink()
    with pytest.raises(UserError, match=r"\b1 of '"):
        of_store(copied / "store")
    first.unlink()
    assert of_store(copied / "store") != before
    assert of_store(copied / "store").startswith("2 files, ")


def test_a_folder_by_its_first_file_and_the_sizes_of_all(tmp_path):
    (tmp_path / ".cache").mkdir()
    found = []
    for config, size in (("{}", 10), ("{}", 11), ("[]", 11)):
        (tmp_path / "config.json").write_text(config)
        (tmp_path / "model.safetensors").write_bytes(bytes(size))
        found.append(of_folder(tmp_path, "config.json"))
        (tmp_path / ".cache" / str(len(found))).touch()
        assert of_folder(tmp_path, "config.json") == found[-1]
    assert len(set(found)) == 3
    assert of_files([tmp_path / "model.safetensors"]).startswith("1 files, ")
    with pytest.raises(FileNotFoundError):
        of_folder(tmp_path, HEADER)


A, B, C = (f"10.0.0.{number} (abcd0123)" for number in (1, 2, 3))
STORE = "docagent.store=/w/store"
OLD, NEW = "10 documents, 00000000", "12 documents, 11111111"


def test_every_problem_of_every_node_is_told():
    assert (
        problem_message({A: NodeReport(seen={STORE: NEW}), B: NodeReport(seen={STORE: NEW})})
        is None
    )
    lacks = ("docagent.prompt=/p: No such file", "the environment variable K is not set")
    reports = {
        A: NodeReport(seen={STORE: NEW}),
        B: NodeReport(lacks, {STORE: OLD}),
        C: NodeReport((f"{STORE}: gone",)),
    }
    lines = problem_message(reports).splitlines()
    assert lines[0].startswith("the check of 3 nodes ")
    assert f"  {B}: {lacks[0]}" in lines
    assert f"  {C}: {STORE}: gone" in lines
    difference = f"{NEW} on {A}; {OLD} on {B}"
    assert any(STORE in line and difference in line for line in lines)


def test_nodes_where_nothing_can_be_placed_are_not_asked():
    nodes = {"b": {"CPU": 4}, "a": {"GPU": 8}, "c": {"CPU": 4}, "d": {"memory": 4}}
    rows = [
        {
            "NodeID": f"of {name}",
            "NodeManagerAddress": name,
            "Alive": name != "c",
            "Resources": resources,
        }
        for name, resources in nodes.items()
    ]
    assert usable_nodes(rows) == {"a (of a)": "of a", "b (of b)": "of b"}


RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture
def workspace(world, tmp_path):
    for name in ("store", "index"):
        shutil.copytree(world.root / name, tmp_path / name)
    for split in ("train", "val"):
        write_parquet(world.samples, tmp_path / "data" / f"{split}.parquet")
    (tmp_path / "models" / "tiny_vrag_rl_qwen2_5_vl").mkdir(parents=True)
    (tmp_path / "models" / "tiny_vrag_rl_qwen2_5_vl" / "config.json").write_text("{}")
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
        f"actor_rollout_ref.model.path={workspace}/models/tiny_vrag_rl_qwen2_5_vl",
        f"critic.model.path={workspace}/models/tiny_vrag_rl_qwen2_5_vl",
        *(f"the package {name}" for name in PACKAGES),
    }


def test_everything_that_is_missing_is_told(config, workspace):
    for name in ("store", "index", "data", "models"):
        shutil.rmtree(workspace / name)
    (workspace / "file").touch()
    key = [
        "docagent.judge.base_url=http://192.0.2.1/v1",
        "docagent.judge.api_key_env=NODES_HAVE_NONE",
    ]
    problems = inspect_node(
        config(*JUDGE, *key, f"docagent.run_dir={workspace}/file/run"), False
    ).problems
    data = [f"data.{split}_files={workspace}/data/{split}.parquet: " for split in ("train", "val")]
    folders = [
        f"docagent.store={workspace}/store: ",
        f"docagent.retriever.index={workspace}/index: ",
    ]
    others = [
        f"actor_rollout_ref.model.path={workspace}/models/tiny_vrag_rl_qwen2_5_vl: ",
        "NODES_HAVE_NONE",
    ]
    for part in (*data, *folders, *others, f"docagent.run_dir={workspace}/file/run"):
        assert any(part in problem for problem in problems), part


async def test_services_are_asked(config):
    async with serving(ChatServer(["<judge>true</judge>"])) as server:
        reader = f"{{model: m, base_url: '{NOWHERE}/v1', attempts: 1}}"
        services = f"docagent.judge.base_url={server.url}", f"docagent.roles.reader={reader}"
        search = "docagent.retriever.backend=http", f"docagent.retriever.service.url={NOWHERE}"
        report = await asyncio.to_thread(inspect_node, config(*JUDGE, *services, *search), False)
    assert server.requests
    assert len(report.problems) == 2
    assert all("127.0.0.1:9" in problem for problem in report.problems)
    assert any(problem.startswith("docagent.retriever.service.url=") for problem in report.problems)
    assert not any("index" in name for name in report.seen)


def test_the_file_of_a_reward_function_is_the_same_everywhere(config, workspace):
    file, key = workspace / "mine.py", "reward.custom_reward_function.path"
    seen = []
    for text in ("SCALE = 1\n", "SCALE = 2\n"):
        file.write_text(text)
        seen.append(inspect_node(config(f"{key}={file}"), False).seen[f"{key}={file}"])
    assert seen[0] != seen[1]
    file.unlink()
    assert (
        f"{key}={file}: No such file or directory"
        in inspect_node(config(f"{key}={file}"), False).problems
    )
    assert key not in str(inspect_node(config(f"{key}=pkg://mine"), False).seen)
