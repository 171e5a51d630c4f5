import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.model import build_model, tiny_config
from docagent_rl.lab.tiny.warm_up import WarmUp, sharpen, warm_up
from tests.lab.tiny.conftest import conversations


def test_initial_scales(model):
    language, vision = model.model.language_model, model.model.visual
    scales = {
        language.embed_tokens: 0.1,
        language.layers[0].self_attn.q_proj: 128**-0.5,
        vision.patch_embed.proj: (3 * 2 * 14 * 14) ** -0.5,
    }
    for layer, scale in scales.items():
        assert layer.weight.std().item() == pytest.approx(scale, rel=0.02)
    assert language.layers[0].self_attn.q_proj.bias.abs().max() == 0
    assert model.lm_head.weight is language.embed_tokens.weight


def test_weights_depend_on_the_seed_alone(processor):
    config = tiny_config(processor.tokenizer)
    torch.manual_seed(1)
    first = build_model(config, seed=3).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = build_model(config, seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    other = build_model(config, seed=4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(tensor, other[name]) for name, tensor in first.items() if tensor.ndim >= 2)


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


def test_sharpen_scales_the_logits(model):
    ids = torch.tensor([[5, 300, 17, 4]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        sharpen(model, 1.5)
        torch.testing.assert_close(model(input_ids=ids).logits, 1.5 * before)


ABOVE_ZERO = ["full_steps", "batch_size", "pool", "learning_rate", "short_context"]


@pytest.mark.parametrize(
    ("name", "value"), [*((name, 0) for name in ABOVE_ZERO), ("sharpness", -1.0), ("short_steps", -1)]
)
def test_refuses_impossible_settings(name, value):
    with pytest.raises(UserError, match=f"WarmUp.{name} "):
        WarmUp(conversations, **{name: value})


def test_refuses_an_empty_sampler():
    with pytest.raises(UserError):
        WarmUp(lambda seed: []).draw()
