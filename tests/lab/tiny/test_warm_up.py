import pytest
import torch

from docagent_rl.lab.tiny.model import build_model
from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.lab.tiny.tokenizer import encode
from docagent_rl.lab.tiny.warm_up import WarmUp, batch_loss, shared_prefix, warm_up
from tests.lab.tiny.conftest import conversations

INSTRUCTIONS = (
    "Search for pages, look closer at a part of the last image, or answer the question. " * 8
)
QUESTIONS = [("Which river?", "Danube"), ("How deep?", "12")]


@pytest.fixture(scope="module")
def batch(processor):
    samplers = [conversations(1, INSTRUCTIONS, [pair]) for pair in QUESTIONS]
    return [encode(next(sampler), processor) for sampler in samplers]


def slow_loss(model, batch):
    """Compute the loss one example at a time, with the public forward pass and without any
    sharing.
    """
    terms = []
    for example in batch:
        ids = example.input_ids[None]
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=example.is_image[None],
            **example.vision,
        ).logits[0]
        chosen = logits[:-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        terms.append(-chosen[example.supervised[1:]])
    return torch.cat(terms).mean()


@pytest.mark.parametrize("context", [None, 12])
def test_batch_loss_and_gradient_equal_the_slow_ones(model, batch, context):
    if context:
        batch = [example.shortened(context) for example in batch]
    assert (shared_prefix(batch) > 0) == (context is None)
    assert any(bool(example.vision) for example in batch) == (context is None)
    parameters = list(model.model.language_model.parameters())
    fast, slow = batch_loss(model, batch), slow_loss(model, batch)
    torch.testing.assert_close(fast, slow)
    gradients = (torch.autograd.grad(loss, parameters) for loss in (fast, slow))
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)


def test_a_few_steps_lower_the_loss_and_depend_on_their_seed_alone(processor):
    pool = WarmUp(conversations, pool=4).draw()
    states, losses = [], []
    for global_seed, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(global_seed)
        model = build_model(tiny_config(processor.tokenizer), seed=0)
        vision = {name: tensor.clone() for name, tensor in model.model.visual.state_dict().items()}
        settings = WarmUp(conversations, short_steps=8, full_steps=2, batch_size=2, seed=seed)
        losses.append(warm_up(model, processor, pool, settings))
        states.append(model.state_dict())
    assert [len(each) for each in losses] == [10] * 3
    assert losses[0][-1] < 0.2 * losses[0][0]
    assert losses[0] == losses[1] != losses[2]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert all(
        torch.equal(states[0]["model.visual." + name], tensor) for name, tensor in vision.items()
    )
    assert all(parameter.requires_grad for parameter in model.parameters())
