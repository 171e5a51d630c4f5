"""verl's process groups and FSDP2's offload on a machine without an accelerator."""

import pytest
import torch
import torch.distributed as dist
import verl.utils.distributed as upstream
import verl.utils.fsdp_utils as weights
import verl.workers.engine.fsdp.transformer_impl as engines
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from docagent_rl.training import cpu_platform

pytestmark = pytest.mark.usefixtures("cpu_only")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Set the variables that torchrun and Ray's workers set for a single rank."""
    cpu_platform.register_cpu_platform()
    monkeypatch.delenv("DIST_INIT_METHOD", raising=False)
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    for name, value in {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize(
    "name", ["initialize_global_process_group", "initialize_global_process_group_ray"]
)
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


def test_an_offloaded_module_computes_which_upstream_still_pins(monkeypatch):
    # torch's own: where vLLM's worker for CPUs is imported, nothing is pinned, and nothing fails
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch._C.TensorBase.pin_memory)
    upstream.initialize_global_process_group_ray(timeout_second=30)
    mesh, found = init_device_mesh("cpu", (1,)), engines.CPUOffloadPolicy

    def forward_with(policy):
        module = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.ones_(module.weight)
        fully_shard(module, mesh=mesh, offload_policy=policy(pin_memory=True))
        return module(torch.tensor([[1.0, 2.0]])).item()

    # torch looks for the driver of the accelerator that it would pin for
    with pytest.raises(RuntimeError, match=r"NVIDIA driver|accelerator|pin"):
        forward_with(found.__wrapped__)
    assert forward_with(found) == 3.0


def test_kept_weights_stay_as_they_were_which_upstream_still_trains():
    """`separate_async` keeps weights, trains, and returns to them for the old log-probs."""
    upstream.initialize_global_process_group_ray(timeout_second=30)
    module = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(module.weight)
    fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
    save = weights.fsdp2_sharded_save_to_cpu
    kept, _ = save.__wrapped__(module)
    (aliased,) = (tensor for tensor, _ in kept.values())
    kept, layout = save(module)
    (copied,) = (tensor for tensor, _ in kept.values())
    with torch.no_grad():
        module.weight.fill_(3.0)
    assert aliased.tolist() == [[3.0, 3.0]]
    assert copied.tolist() == [[1.0, 1.0]]
    weights.fsdp2_sharded_load_from_cpu(module, kept, layout)
    assert module.weight.full_tensor().tolist() == [[1.0, 1.0]]
