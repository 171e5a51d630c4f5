from __future__ import annotations

from itertools import islice, takewhile

import pytest
import torch

from docagent_rl.lab.tiny.encoding import encode
from docagent_rl.lab.tiny.loss import batch_loss, shared_prefix
from tests.lab.tiny.conftest import conversations

INSTRUCTIONS = "Search for pages, look closer at a part of the last image, or answer the question. " * 8
QUESTIONS = [("Which river?", "Danube"), ("How deep?", "12")]


@pytest.fixture(scope="module")
def batch(processor):
    samplers = [conversations(1, INSTRUCTIONS, [pair]) for pair in QUESTIONS]
    return [encode(conversation, processor) for sampler in samplers for conversation in islice(sampler, 2)]


def slow_loss(model, batch):
    """One example at a time, through the public forward pass, without any sharing."""
    terms = []
    for example in batch:
        ids = example.input_ids[None]
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=example.is_image[None],
            pixel_values=example.pixel_values,
            image_grid_thw=example.image_grid_thw,
        ).logits[0]
        chosen = logits[:-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        terms.append(-chosen[example.supervised[1:]])
    return torch.cat(terms).mean()


def test_shared_prefix_is_the_common_opening(processor, batch):
    columns = zip(*(example.input_ids.tolist() for example in batch), strict=False)
    common = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]
    assert shared_prefix(batch) == len(common)
    assert processor.tokenizer.decode(common).endswith(INSTRUCTIONS.strip())
    # equal examples share all but the token that predicts the first turn
    opening = int(batch[0].supervised.nonzero()[0])
    assert shared_prefix([batch[0], batch[0]]) == opening - 1
    assert shared_prefix([example.shortened(8) for example in batch]) == 0


@pytest.mark.parametrize("context", [None, 12])
def test_batch_loss_and_gradient_equal_the_slow_ones(model, batch, context):
    if context:
        batch = [example.shortened(context) for example in batch]
    assert (shared_prefix(batch) > 0) == (context is None)
    assert any(example.pixel_values is not None for example in batch) == (context is None)
    parameters = list(model.model.language_model.parameters())
    fast, slow = batch_loss(model, batch), slow_loss(model, batch)
    torch.testing.assert_close(fast, slow)
    gradients = (torch.autograd.grad(loss, parameters) for loss in (fast, slow))
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)
