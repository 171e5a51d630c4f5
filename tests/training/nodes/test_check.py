from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from docagent_rl.training.nodes.check import Node, told, usable_nodes
from docagent_rl.training.nodes.fingerprint import Fingerprint
from docagent_rl.training.nodes.sight import Sight
from tests.cluster import Cluster, can_hide

A, B, C = (Node(letter * 40, f"10.0.0.{number}") for number, letter in enumerate("abc", 1))
STORE = "docagent.store=/w/store"
OLD, NEW = Fingerprint("0" * 64, "10 documents"), Fingerprint("1" * 64, "12 documents")


def test_nodes_that_agree_have_nothing_to_tell():
    assert told({A: Sight(seen={STORE: NEW}), B: Sight(seen={STORE: NEW})}) is None


def test_every_problem_of_every_node_is_told():
    message = told(
        {
            A: Sight(seen={STORE: NEW}),
            B: Sight(
                ("docagent.prompt=/p: No such file", "the environment variable K is not set"), {STORE: OLD}
            ),
            C: Sight((f"{STORE}: gone",)),
        }
    )
    assert message is not None
    lines = message.splitlines()
    assert lines[0].startswith("3 ")
    assert f"  {B}: docagent.prompt=/p: No such file" in lines
    assert f"  {C}: {STORE}: gone" in lines
    difference = f"12 documents, 11111111 on {A}; 10 documents, 00000000 on {B}"
    assert any(STORE in line and difference in line for line in lines)
    assert "ray start" in lines[-1]
    assert str(A) == "10.0.0.1 (aaaaaaaa)"


def test_nodes_where_nothing_can_be_placed_are_not_asked():
    rows = [
        {"NodeID": "1", "NodeManagerAddress": "b", "Alive": True, "Resources": {"CPU": 4}},
        {"NodeID": "2", "NodeManagerAddress": "a", "Alive": True, "Resources": {"GPU": 8}},
        {"NodeID": "3", "NodeManagerAddress": "c", "Alive": False, "Resources": {"CPU": 4}},
        {"NodeID": "4", "NodeManagerAddress": "d", "Alive": True, "Resources": {"memory": 4}},
    ]
    assert usable_nodes(rows) == [Node("2", "a"), Node("1", "b")]


SCRIPT = """
import sys
import ray
from omegaconf import OmegaConf
from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError
from docagent_rl.training.nodes.check import check_nodes

workspace = sys.argv[1]
config = composed("vrag_rl_qwen2_5_vl_7b", [
    "+profile=cpu", f"docagent.workspace={workspace}", "docagent.judge.kind=openai", "docagent.judge.model=m",
    "docagent.judge.base_url=http://127.0.0.1:9/v1", "docagent.judge.attempts=1", "docagent.judge.check_s=1",
    "docagent.judge.api_key_env=KEY_OF_THE_HEAD"])
OmegaConf.resolve(config)
ray.init(log_to_driver=False)
try:
    check_nodes(config, embeds=False)
except UserError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not can_hide(), reason="needs namespaces")
def test_a_real_node_that_lacks_a_folder_and_a_key(world, tmp_path):
    workspace = tmp_path / "w"
    (workspace / "models" / "tiny_vrag_rl").mkdir(parents=True)
    (workspace / "models" / "tiny_vrag_rl" / "config.json").write_text("{}")
    shutil.copytree(world.root / "store", workspace / "store")
    shutil.copytree(world.root / "index", workspace / "index")
    (workspace / "data").mkdir()
    for name in ("train", "val"):
        (workspace / "data" / f"{name}.parquet").write_bytes(b"PAR1")
    with (
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as folder,  # a short name
        Cluster(Path(folder), Path(sys.executable), {"KEY_OF_THE_HEAD": "k" * 20}) as cluster,
    ):
        cluster.add(hidden=workspace / "store", gpus=0, environment={"KEY_OF_THE_HEAD": ""})
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(workspace)],
            env={**os.environ, **cluster.environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 "), done.stderr[-3000:]
    (store,) = [line for line in lines if f"docagent.store={workspace}/store: " in line]
    (key,) = [line for line in lines if "KEY_OF_THE_HEAD" in line]
    (judge,) = [line for line in lines if "judge does not answer" in line]
    hidden, head = store.partition(": ")[0], judge.partition(": ")[0]
    assert key.startswith(hidden)
    assert hidden != head
    assert len(lines) == 5
