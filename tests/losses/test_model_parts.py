"""Heads and hidden states of models that FSDP2 has sharded."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed import HashStore, destroy_process_group, init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

from docagent_rl.losses.model_parts import HiddenTap, copied_head, gathered_head

CPU = torch.device("cpu")


class Model(nn.Module):
    def __init__(self, *, bias: bool = True):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 5, bias=bias)

    def get_output_embeddings(self) -> nn.Linear:
        return self.head

    def forward(self, states):
        return self.head(self.body(states))


@pytest.fixture(scope="module")
def mesh():
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    destroy_process_group()


@pytest.mark.parametrize("own_group", [True, False])
def test_a_head_is_gathered_and_receives_gradients(mesh, own_group):
    model, plain = Model(), Model()
    if own_group:
        fully_shard(model.head, mesh=mesh)
    fully_shard(model, mesh=mesh)
    states = torch.randn(2, 3)
    loss = model(states).sum()
    head = gathered_head(model)
    assert not isinstance(head.weight, DTensor)
    assert torch.equal(head.weight, plain.head.weight)
    assert torch.equal(head.bias, plain.head.bias)
    (loss + (head.weight**2).sum()).backward()
    (plain(states).sum() + (plain.head.weight**2).sum()).backward()
    torch.testing.assert_close(model.head.weight.grad.full_tensor(), plain.head.weight.grad)


def test_a_head_that_nothing_has_sharded_is_itself():
    model = Model()
    assert gathered_head(model).weight is model.head.weight


def test_a_head_that_something_else_has_sharded_is_refused(mesh):
    model = Model()
    model.head.weight = nn.Parameter(
        distribute_tensor(model.head.weight.detach(), mesh, [Replicate()])
    )
    with pytest.raises(RuntimeError):
        gathered_head(model)


@pytest.mark.parametrize("bias", [True, False])
def test_a_copy_is_whole_and_of_its_own(mesh, bias):
    model, plain = Model(bias=bias), Model(bias=bias)
    fully_shard(model, mesh=mesh)
    copy = copied_head(model, torch.bfloat16, CPU)
    assert not isinstance(copy.weight, DTensor)
    assert not copy.weight.requires_grad
    assert torch.equal(copy.weight, plain.head.weight.bfloat16())
    assert (copy.bias is None) is not bias
    if bias:
        assert torch.equal(copy.bias, plain.head.bias.bfloat16())
    own = copied_head(plain, torch.float32, CPU)
    assert own.weight.data_ptr() != plain.head.weight.data_ptr()


class Base(nn.Linear):
    """A base model whose outputs are those of a transformers model: states first."""

    def forward(self, inputs):
        return (super().forward(inputs), "cache")


@pytest.fixture
def base():
    return Base(2, 3)


def test_the_states_of_the_last_pass_are_taken_once_with_their_gradient(base):
    tap = HiddenTap(SimpleNamespace(base_model=base), training_only=True)
    with pytest.raises(RuntimeError):
        tap.take()
    base(torch.ones(1, 2))
    states, _ = base(torch.full((1, 2), 2.0))
    assert tap.take() is states
    assert states.requires_grad
    with pytest.raises(RuntimeError):
        tap.take()


@pytest.mark.parametrize("training_only", [True, False])
def test_passes_without_gradients_are_kept_where_that_is_wanted(base, training_only):
    tap = HiddenTap(SimpleNamespace(base_model=base), training_only=training_only)
    before, _ = base(torch.ones(1, 2))
    with torch.no_grad():
        after, _ = base(torch.ones(1, 2))
    assert tap.take() is (before if training_only else after)
