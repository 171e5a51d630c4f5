"""The commands, the file of Docker Compose and the script of Slurm that start a plan."""

import json
import os
import shlex
import subprocess
from dataclasses import replace

import pytest
import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB
from docagent_rl.checks.placement.compose import compose_file
from docagent_rl.checks.placement.demand import Needs, Pool, TrainerLayout
from docagent_rl.checks.placement.plan import make_plan
from docagent_rl.checks.placement.slurm import slurm_script
from docagent_rl.checks.placement.start import planned_servers
from docagent_rl.checks.placement.table import plan_page, plan_table
from tests.checks.placement.demands import demand, needs

SEEN = 80 * GIB
JUDGE = replace(
    demand("judge", 15, concurrency=4),
    port=8001,
    variable="DOCAGENT_JUDGE_URL",
    keys=("docagent.judge.base_url",),
)
READER = replace(
    demand("reader", 16, cache=2, concurrency=4),
    port=8002,
    keys=("docagent.roles.reader.base_url",),
    images=3,
)
FAKE = """#!/usr/bin/env python3
import json, os, sys
names = ("DOCAGENT_JUDGE_URL", "CUDA_VISIBLE_DEVICES", "RAY_ADDRESS", "VLLM_API_KEY")
found = {name: os.environ[name] for name in names if name in os.environ}
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], found]) + "\\n")
if "scontrol" in sys.argv[0]:
    print("n1\\nn2\\nn3")
if "openssl" in sys.argv[0]:
    print("secret")
if "hostname" in sys.argv:
    print("10.0.0.1 fe80::1")
"""


def pool(gpus: int, nodes: int = 1) -> Pool:
    return Pool(nodes, gpus, 75 * GIB)


def test_servers_have_the_flags_that_they_need():
    plan = make_plan(needs(JUDGE, READER), pool(5))
    judge, reader = planned_servers(plan, SEEN)
    # 15 + 5 + 4 of 80 GiB
    assert shlex.join(judge.words) == (
        "vllm serve hub/judge --served-model-name hub/judge --host 127.0.0.1 --port 8001 "
        "--tensor-parallel-size 1 --max-model-len 1024 --gpu-memory-utilization 0.3"
    )
    # 16 + 5 + 8
    assert reader.words[-5:] == (
        *("2048", "--gpu-memory-utilization", "0.363", "--limit-mm-per-prompt"),
        '{"image": 3, "video": 0}',
    )
    assert judge.environment == reader.environment == {"CUDA_VISIBLE_DEVICES": "4"}
    # on one GPU, the second one waits until the first has taken its memory
    assert (judge.after, reader.after) == ((), ("judge",))


def test_copies_are_data_parallel_and_shared_models_tensor_parallel():
    large = replace(demand("extractor", 130, concurrency=15), port=8003)
    (start,) = planned_servers(make_plan(needs(large), pool(8)), SEEN)
    words = shlex.join(start.words)
    assert "--tensor-parallel-size 2 --data-parallel-size 2 " in words
    assert start.environment == {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}


def test_the_page_has_a_row_for_each_part_and_the_commands_in_order():
    wanted = replace(needs(JUDGE, READER, retriever="colqwen2"), elsewhere={"x": "http://far/v1"})
    plan = make_plan(wanted, pool(7))
    table = plan_table(wanted, plan, pool(7)).splitlines()
    assert (
        table[2:6]
        == [
            "| trainer | the policy (GPU, update) | 0: 0-3 | 50.0 | | |",
            "| judge | hub/judge | 0: 4 | 24.0 | 1, 1 | 4 of 4 requests of 1,024 tokens |",
            "| reader | hub/reader | 0: 4 | 29.0 | 1, 1 | 4 of 4 requests of 2,048 tokens |",
            "| retriever | colqwen2 | 0: 5 | | | |",
        ]
        or "0: 4" in table[3]
    )
    assert "x is at http://far/v1 and needs none." in table
    page = plan_page(wanted, plan, pool(7), SEEN, ["data.seed=1"])
    script = page.partition("```bash\n")[2].partition("```")[0]
    assert bash_problems(script) == ""
    last = shlex.split(script.splitlines()[-1])
    assert "DOCAGENT_JUDGE_URL=http://127.0.0.1:8001/v1" in last
    assert "--config-name recipe data.seed=1 trainer.nnodes=1 trainer.n_gpus_per_node=4" in (
        " ".join(last)
    )
    assert "docagent.roles.reader.base_url=http://127.0.0.1:8002/v1" in last
    assert "docagent.retriever.service.num_gpus=1" in last
    assert last[0] == "CUDA_VISIBLE_DEVICES=0,1,2,3,5"


def test_on_several_nodes_servers_ask_for_a_key_that_the_run_has():
    wanted = needs(JUDGE, READER)
    page = plan_page(wanted, make_plan(wanted, pool(8, nodes=2)), pool(8, nodes=2), SEEN)
    assert page.count("--host 0.0.0.0") == 2
    assert "# on NODE1" in page
    assert "DOCAGENT_JUDGE_URL=http://NODE1:8001/v1" in page
    assert "++docagent.judge.api_key_env=VLLM_API_KEY" in page


def test_the_file_of_compose_is_valid_and_divides_the_gpus():
    wanted = needs(JUDGE, READER, retriever="colqwen2")
    found = yaml.safe_load(compose_file(wanted, make_plan(wanted, pool(5)), SEEN, ["a=$b"]))
    assert found.keys() == {"services"}
    services = found["services"]
    assert list(services) == ["judge", "reader", "trainer"]
    devices = {}
    for name, service in services.items():
        allowed = {"image", "command", "environment", "volumes", "network_mode", "ipc", "deploy"}
        assert service.keys() <= allowed | {"depends_on", "healthcheck"}
        assert all(isinstance(word, str) for word in service["command"])
        assert all(isinstance(value, str) for value in service["environment"].values())
        assert all(":" in volume for volume in service["volumes"])
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
        devices[name] = device["device_ids"]
        for other, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" in services[other]
    assert devices == {"judge": ["4"], "reader": ["4"], "trainer": ["0", "1", "2", "3"]}
    assert list(services["reader"]["depends_on"]) == ["judge"]
    assert list(services["trainer"]["depends_on"]) == ["judge", "reader"]
    assert "a=$$b" in services["trainer"]["command"]
    # containers see their GPUs under numbers from 0
    assert "CUDA_VISIBLE_DEVICES" not in str(found)


def test_compose_is_refused_for_several_nodes():
    wanted = needs(JUDGE)
    with pytest.raises(UserError, match=r"the plan has 2 nodes.*--format slurm"):
        compose_file(wanted, make_plan(wanted, pool(8, nodes=2)), SEEN)


def bash_problems(script: str) -> str:
    found = subprocess.run(
        ["bash", "-n"], input=script, text=True, capture_output=True, check=False
    )
    return found.stderr


@pytest.fixture
def job(tmp_path):
    """Runs a script where Slurm, Ray, vLLM and the trainer only write down how they are called."""
    tools = tmp_path / "venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("srun", "scontrol", "ray", "python", "openssl"):
        (tools / name).write_text(FAKE)
        (tools / name).chmod(0o755)

    def run(script: str) -> list:
        calls = tmp_path / "calls"
        environment = {
            **{"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CALLS": str(calls)},
            **{"SLURM_JOB_NODELIST": "n[1-3]", "DOCAGENT_WORKSPACE": "/w"},
            "VENV": str(tmp_path / "venv"),
        }
        subprocess.run(["bash", "-c", script], env=environment, check=True, capture_output=True)
        return [json.loads(line) for line in calls.read_text().splitlines()]

    return run


def trainer_of(calls: list) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the variables of the one trainer that was started."""
    ((words, variables),) = [call[1:] for call in calls if "verl.trainer.main_ppo" in call[1]]
    return words, variables


def test_a_job_on_one_node_starts_servers_in_turn_and_the_trainer_last(job):
    wanted = needs(JUDGE, READER)
    script = slurm_script(wanted, make_plan(wanted, pool(5)), 5, SEEN, ["data.seed=1"])
    assert bash_problems(script) == ""
    assert "#SBATCH --nodes=1\n" in script
    assert "#SBATCH --gpus-per-node=5\n" in script
    calls = job(script)
    served = [call[1] for call in calls if call[0] == "srun"]
    assert [words[words.index("serve") + 1] for words in served] == ["hub/judge", "hub/reader"]
    assert all("--nodelist=n1" in words and "CUDA_VISIBLE_DEVICES=4" in words for words in served)
    asked = [call[1][-1] for call in calls if call[0] == "python" and "health" in call[1][-1]]
    assert asked == [f"http://127.0.0.1:{port}/health" for port in (8001, 8002)]
    words, variables = trainer_of(calls)
    assert {"data.seed=1", "trainer.n_gpus_per_node=4"} <= set(words)
    assert variables == {
        "DOCAGENT_JUDGE_URL": "http://127.0.0.1:8001/v1",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }


def test_a_job_on_three_nodes_has_ray_on_two_and_servers_on_the_third(job):
    wanted = Needs("recipe", (TrainerLayout(2, 8, 70 * GIB, "GPU, update"),), (JUDGE, READER), {})
    plan = make_plan(wanted, pool(8, nodes=3))
    script = slurm_script(wanted, plan, 8, SEEN)
    assert bash_problems(script) == ""
    calls = job(script)
    where = {
        word: next(each for each in words if each.startswith("--nodelist"))
        for name, words, _ in calls
        if name == "srun"
        for word in ("hub/judge", "hub/reader", "--head", "--address=10.0.0.1:6379")
        if word in words
    }
    assert where == {
        "hub/judge": "--nodelist=n3",
        "hub/reader": "--nodelist=n3",
        "--head": "--nodelist=n1",
        "--address=10.0.0.1:6379": "--nodelist=n2",
    }
    words, variables = trainer_of(calls)
    assert "docagent.roles.reader.base_url=http://n3:8002/v1" in words
    assert variables == {
        "DOCAGENT_JUDGE_URL": "http://n3:8001/v1",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "RAY_ADDRESS": "10.0.0.1:6379",
        "VLLM_API_KEY": "secret",
    }
