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


def test_every_problem_of_every_node_is_told():
    assert told({A: Sight(seen={STORE: NEW}), B: Sight(seen={STORE: NEW})}) is None
    lacks = ("docagent.prompt=/p: No such file", "the environment variable K is not set")
    sights = {A: Sight(seen={STORE: NEW}), B: Sight(lacks, {STORE: OLD}), C: Sight((f"{STORE}: gone",))}
    lines = told(sights).splitlines()
    assert lines[0].startswith("3 ")
    assert f"  {B}: {lacks[0]}" in lines
    assert f"  {C}: {STORE}: gone" in lines
    difference = f"12 documents, 11111111 on {A}; 10 documents, 00000000 on {B}"
    assert any(STORE in line and difference in line for line in lines)
    assert str(A) == "10.0.0.1 (aaaaaaaa)"


def test_nodes_where_nothing_can_be_placed_are_not_asked():
    nodes = {"b": {"CPU": 4}, "a": {"GPU": 8}, "c": {"CPU": 4}, "d": {"memory": 4}}
    rows = [
        {"NodeID": f"of {name}", "NodeManagerAddress": name, "Alive": name != "c", "Resources": resources}
        for name, resources in nodes.items()
    ]
    assert usable_nodes(rows) == [Node("of a", "a"), Node("of b", "b")]


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
def test_a_real_node_that_lacks_a_folder_and_a_key(world, tmp_path, warm_python):
    workspace = tmp_path / "w"
    for name in ("store", "index"):
        shutil.copytree(world.root / name, workspace / name)
    for name in ("models/tiny_vrag_rl/config.json", "data/train.parquet", "data/val.parquet"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("{}" if name.endswith("json") else "PAR1")
    with (
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as folder,  # a short name
        Cluster(Path(folder), warm_python, {"KEY_OF_THE_HEAD": "k" * 20}) as cluster,
    ):
        own = {"KEY_OF_THE_HEAD": ""}
        cluster.add(hidden=workspace / "store", gpus=0, environment=own, python=Path(sys.executable))
        done = subprocess.run(
            [warm_python, "-c", SCRIPT, str(workspace)],
            env={**os.environ, **cluster.environment},
            capture_output=True,
            text=True,
            timeout=600,
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
