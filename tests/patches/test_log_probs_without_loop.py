from __future__ import annotations

import pytest
import torch
import verl.utils.torch_functional as upstream
from torch.utils._python_dispatch import TorchDispatchMode

from docagent_rl.training.attention.ways import flash_attn_version

pytestmark = pytest.mark.skipif(flash_attn_version() is not None, reason="flash-attn is installed")


class Count(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


def operations(function, tokens: int, dtype) -> int:
    with Count() as count:
        function(torch.zeros(tokens, 7, dtype=dtype), torch.zeros(tokens, dtype=torch.long))
    return count.calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_operations_do_not_grow_with_the_tokens(dtype):
    stock = upstream.logprobs_from_logits.__wrapped__
    assert operations(stock, 64, dtype) > operations(stock, 8, dtype) + 50  # else the patch is not needed
    assert len({operations(upstream.logprobs_from_logits, tokens, dtype) for tokens in (8, 64)}) == 1


def test_values_are_in_full_precision_for_logits_in_half():
    logits, labels = torch.randn(9, 30).bfloat16(), torch.arange(9)
    found = upstream.logprobs_from_logits(logits, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, logits.float().log_softmax(-1)[labels, labels], rtol=0, atol=1e-5)
    assert upstream.logprobs_from_logits.__wrapped__(logits, labels).dtype == torch.bfloat16


def test_response_of_packed_rows_is_cut_out():
    ids = torch.tensor([[0, 3, 4, 5, 6], [7, 8, 2, 1, 0]])
    mask = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    logits = torch.randn(2, 5, 10)
    found = upstream.log_probs_from_logits_response_rmpad(ids, mask, logits[mask == 1], 2)
    logged = logits.log_softmax(-1)
    expected = logged[:, 2:4].gather(2, ids[:, 3:, None])[..., 0]
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1, 0], expected[1, 0])
