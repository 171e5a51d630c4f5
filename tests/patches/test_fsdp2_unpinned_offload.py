from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import verl.workers.engine.fsdp.transformer_impl as upstream
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

pytestmark = pytest.mark.usefixtures("cpu_only")


@pytest.fixture
def mesh(tmp_path):
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/store")
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def forward_with(policy_class, mesh) -> torch.Tensor:
    module = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(module.weight)
    fully_shard(module, mesh=mesh, offload_policy=policy_class(pin_memory=True))
    return module(torch.tensor([[1.0, 2.0]]))


def test_upstream_still_pins_without_an_accelerator(mesh):
    # torch looks for the driver of the accelerator that it would pin for
    with pytest.raises(RuntimeError, match=r"NVIDIA driver|accelerator|pin"):
        forward_with(upstream.CPUOffloadPolicy.__wrapped__, mesh)


def test_offloaded_module_computes(mesh):
    assert forward_with(upstream.CPUOffloadPolicy, mesh).item() == 3.0
