from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docagent_rl.training.attention import log_probs
from docagent_rl.training.attention.log_probs import log_probs_of_labels


def logits_and_labels(shape: tuple[int, ...], dtype=torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(shape, generator=generator) * 4
    return values.to(dtype), torch.randint(shape[-1], shape[:-1], generator=generator)


@pytest.mark.parametrize("shape", [(7, 11), (2, 5, 11), (1, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equals_log_softmax_forward_and_backward(shape, dtype, monkeypatch):
    monkeypatch.setattr(log_probs, "BLOCK_ENTRIES", 22)  # blocks of two positions and of seven
    logits, labels = logits_and_labels(shape, dtype)
    logits.requires_grad_()
    exact = logits.detach().double().requires_grad_()
    found = log_probs_of_labels(logits, labels)
    expected = exact.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
    assert found.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    weights = torch.randn(found.shape, dtype=found.dtype)
    (got,) = torch.autograd.grad(found, logits, weights)
    (wanted,) = torch.autograd.grad(expected, exact, weights.double())
    assert got.dtype == dtype
    tolerance = 1e-2 if dtype is torch.bfloat16 else 1e-6
    torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance)
    assert torch.equal(logits.double(), exact)  # a leaf is left alone


@pytest.mark.parametrize("inplace", [True, False])
def test_gradient_takes_the_place_of_the_logits_only_when_allowed(inplace):
    weight, labels = logits_and_labels((6, 9))
    logits = weight.requires_grad_() * 1.5
    before = logits.detach().clone()
    (gradient,) = torch.autograd.grad(log_probs_of_labels(logits, labels, inplace).sum(), logits)
    assert (gradient.data_ptr() == logits.data_ptr()) is inplace
    assert torch.equal(logits, before) is not inplace
    one_hot = torch.nn.functional.one_hot(labels, 9)
    torch.testing.assert_close(gradient, one_hot - before.softmax(-1), rtol=1e-5, atol=1e-6)


def test_another_user_of_overwritten_logits_fails_instead_of_being_wrong():
    weight, labels = logits_and_labels((6, 9))
    logits = weight.requires_grad_() * 1.5
    total = logits.logsumexp(-1).sum() + log_probs_of_labels(logits, labels).sum()
    with pytest.raises(RuntimeError):
        total.backward()


def test_backward_holds_blocks_beside_the_logits(monkeypatch):
    monkeypatch.setattr(log_probs, "BLOCK_ENTRIES", 1000)
    weight, labels = logits_and_labels((200, 100))
    logits = weight.requires_grad_() * 1.0
    own, largest = logits.untyped_storage(), 0

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            storage = result.untyped_storage() if isinstance(result, Tensor) else own
            if storage.data_ptr() != own.data_ptr():
                largest = max(largest, storage.nbytes())
            return result

    with Sizes():
        torch.autograd.grad(log_probs_of_labels(logits, labels).sum(), logits)
    assert 0 < largest <= 1000 * 4
