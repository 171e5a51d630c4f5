from __future__ import annotations

import pytest
import torch

from docagent_rl.errors import UserError
from docagent_rl.tiny.model import build_model, tiny_config
from docagent_rl.tiny.warm_up import WarmUp, sharpen, warm_up
from tests.tiny.conftest import conversations


def test_a_few_steps_lower_the_loss_and_depend_on_their_seed_alone(processor):
    pool = WarmUp(conversations, pool=4).draw()
    states, losses = [], []
    for global_seed, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(global_seed)
        model = build_model(tiny_config(processor.tokenizer), seed=0)
        vision = {name: tensor.clone() for name, tensor in model.model.visual.state_dict().items()}
        settings = WarmUp(conversations, short_steps=8, full_steps=2, batch_size=2, seed=seed, threads=1)
        losses.append(warm_up(model, processor, pool, settings))
        states.append(model.state_dict())
    assert [len(each) for each in losses] == [10] * 3
    assert losses[0][-1] < 0.2 * losses[0][0]
    assert losses[0] == losses[1] != losses[2]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert all(torch.equal(states[0]["model.visual." + name], tensor) for name, tensor in vision.items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_threads_are_given_back(model, processor, monkeypatch):
    used = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    settings = WarmUp(conversations, short_steps=1, full_steps=1, pool=1, batch_size=1, threads=3)
    warm_up(model, processor, settings.draw(), settings)
    assert used == [3, 7]


def test_sharpen_scales_the_logits(model):
    ids = torch.tensor([[5, 300, 17, 4]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        sharpen(model, 1.5)
        torch.testing.assert_close(model(input_ids=ids).logits, 1.5 * before)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("full_steps", 0),
        ("batch_size", 0),
        ("pool", 0),
        ("learning_rate", 0.0),
        ("sharpness", -1.0),
        ("short_steps", -1),
        ("short_context", 0),
    ],
)
def test_refuses_impossible_settings(name, value):
    with pytest.raises(UserError, match=f"WarmUp.{name} "):
        WarmUp(conversations, **{name: value})


def test_refuses_an_empty_sampler():
    with pytest.raises(UserError):
        WarmUp(lambda seed: []).draw()
