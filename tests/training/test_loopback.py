import ipaddress
import json
import os
import subprocess
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.loopback import (
    ADDRESS_KEY,
    LOOPBACK_VARIABLE,
    NODES,
    RAY,
    VARIABLES,
    keep_to_loopback,
)

RECIPE = "vrag_rl_qwen2_5_vl_7b"
LISTENERS = Path(__file__).parents[1] / "listeners.py"


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    """Hide other Ray clusters, and leave nothing behind in this process."""
    for name in (*VARIABLES, "RAY_ADDRESS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def test_one_machine_keeps_to_loopback_and_values_of_the_user_stay(recipe, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    config = recipe(RECIPE, f"{RAY}.runtime_env.env_vars.VLLM_HOST_IP=192.0.2.3")
    assert keep_to_loopback(config)
    assert OmegaConf.select(config, f"{RAY}.{ADDRESS_KEY}") == "127.0.0.1"
    own = {"VLLM_HOST_IP": "192.0.2.3", "GLOO_SOCKET_IFNAME": "eth7", "OMP_NUM_THREADS": "1"}
    found = OmegaConf.to_container(OmegaConf.select(config, f"{RAY}.runtime_env.env_vars"))
    assert found.items() >= (VARIABLES | own).items()
    assert os.environ[LOOPBACK_VARIABLE] == "1"


@pytest.mark.parametrize(
    ("override", "address"),
    [
        ("docagent.loopback=false", ""),
        ("trainer.nnodes=2", ""),
        ("ray_kwargs.ray_init.address=192.0.2.1:6379", ""),
        ("ray_kwargs.ray_init._node_ip_address=192.0.2.1", ""),
        ("docagent.loopback=true", "192.0.2.1:6379"),  # a Ray that runs already
    ],
)
def test_what_spans_machines_is_left_alone(recipe, override, address, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    config = recipe(RECIPE, override)
    before = OmegaConf.to_container(config.ray_kwargs)
    assert not keep_to_loopback(config)
    assert OmegaConf.to_container(config.ray_kwargs) == before
    assert LOOPBACK_VARIABLE not in os.environ


def test_every_number_of_nodes_is_looked_at(recipe):
    def found(section, prefix=""):
        for key, value in section.items():
            if isinstance(value, dict):
                yield from found(value, f"{prefix}{key}.")
            elif key == "nnodes":
                yield f"{prefix}{key}"

    plain = OmegaConf.to_container(recipe(RECIPE, cpu=False), resolve=False)
    old = {"reward_model.nnodes"}  # verl moves it to `reward.reward_model`
    assert set(found(plain)) - old == set(NODES)


@pytest.mark.slow(first=True)
def test_ray_and_the_services_of_verl_listen_on_loopback(tmp_path, ray_folder, warm_python):
    path = tmp_path / "report.json"
    environment = {**os.environ, "RAY_TMPDIR": str(ray_folder)}
    command = [warm_python, LISTENERS, path]
    options = {"capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run(command, cwd=tmp_path, env=environment, **options)
    assert path.is_file(), done.stderr[-4000:]
    report = json.loads(path.read_text())
    for host, name in report["listening"]:
        parsed = ipaddress.ip_address(host)
        assert (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback, name
    ours = {"Runner.run", "SimpleStorageUnit", "TransferQueueController"}
    services = {"gcs_server", "raylet", *(f"ray::{name}" for name in ours)}
    assert services <= {name for _, name in report["listening"]}
    assert report["node"] == report["vllm"] == "127.0.0.1"
    assert set(report["gloo"]) == {"127.0.0.1"}
