from __future__ import annotations

import socket

import pytest
import torch
import torch.distributed as dist
import verl.utils.distributed as upstream

from docagent_rl.training.platforms import cpu

pytestmark = pytest.mark.usefixtures("cpu_only")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What torchrun and Ray's workers set for a single rank."""
    cpu.register()
    monkeypatch.delenv("DIST_INIT_METHOD", raising=False)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    for name, value in {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}.items():
        monkeypatch.setenv(name, value)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("name", ["initialize_global_process_group", "initialize_global_process_group_ray"])
def test_upstream_still_names_the_device_twice(name, monkeypatch):
    monkeypatch.setattr(upstream, "get_device_name", lambda: "cpu")
    monkeypatch.setattr(upstream, "get_nccl_backend", lambda: "gloo")
    with pytest.raises(ValueError, match="cpu:gloo,cpu:gloo"):
        getattr(upstream, name).__wrapped__(timeout_second=30)


def test_workers_get_a_group_that_reduces():
    upstream.initialize_global_process_group_ray(timeout_second=30)
    assert dist.get_backend() == "gloo"
    values = torch.tensor([1.0, 2.0])
    dist.all_reduce(values)
    assert values.tolist() == [1.0, 2.0]
    dist.destroy_process_group()
    upstream.initialize_global_process_group_ray(backend="cpu:gloo")  # one that is asked for is kept
    assert dist.get_backend_config() == "cpu:gloo"


def test_torchrun_variant_returns_local_rank_rank_and_world_size():
    assert upstream.initialize_global_process_group(timeout_second=30) == (0, 0, 1)
    assert dist.get_backend() == "gloo"
