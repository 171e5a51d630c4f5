from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

from docagent_rl.errors import UserError
from docagent_rl.tiny.model import build_model, tiny_config
from docagent_rl.tiny.processor import build_processor
from docagent_rl.tiny.tokenizer import build_tokenizer
from docagent_rl.tiny.warm_up import WarmUp, sharpen, warm_up

PROCESSOR: Qwen2_5_VLProcessor = build_processor(build_tokenizer())


@pytest.fixture
def model() -> Qwen2_5_VLForConditionalGeneration:
    return build_model(tiny_config(PROCESSOR.tokenizer), seed=0)


def test_a_few_steps_lower_the_loss_and_are_reproducible(transcripts: Callable[[int], Iterator]) -> None:
    settings = WarmUp(transcripts, short_steps=8, full_steps=4, pool=16, threads=1)
    conversations = settings.draw()
    states, losses = [], []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        model = build_model(tiny_config(PROCESSOR.tokenizer), seed=0)
        vision = {name: tensor.clone() for name, tensor in model.model.visual.state_dict().items()}
        losses.append(warm_up(model, PROCESSOR, conversations, settings))
        states.append(model.state_dict())
    assert len(losses[0]) == 12
    assert losses[0][-1] < 0.7 * losses[0][0]
    assert losses[0] == losses[1]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert all(torch.equal(states[0]["model.visual." + name], tensor) for name, tensor in vision.items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_another_seed_gives_other_batches(transcripts: Callable[[int], Iterator]) -> None:
    pool = WarmUp(transcripts, pool=16).draw()
    losses = []
    for seed in (0, 1):
        settings = WarmUp(transcripts, short_steps=2, full_steps=1, seed=seed, threads=1)
        model = build_model(tiny_config(PROCESSOR.tokenizer), seed=0)
        losses.append(warm_up(model, PROCESSOR, pool, settings))
    assert losses[0] != losses[1]


def test_threads_are_given_back(
    model: Qwen2_5_VLForConditionalGeneration, transcripts: Callable[[int], Iterator]
) -> None:
    before = torch.get_num_threads()
    settings = WarmUp(transcripts, short_steps=1, full_steps=1, pool=2, threads=before + 1)
    warm_up(model, PROCESSOR, settings.draw(), settings)
    assert torch.get_num_threads() == before


def test_sharpen_scales_the_logits(model: Qwen2_5_VLForConditionalGeneration) -> None:
    ids = torch.tensor([[5, 300, 17, 4]])
    with torch.no_grad():
        before = model(input_ids=ids).logits
        sharpen(model, 1.5)
        torch.testing.assert_close(model(input_ids=ids).logits, 1.5 * before)


@pytest.mark.parametrize(
    "wrong",
    [
        {"full_steps": 0},
        {"batch_size": 0},
        {"pool": 0},
        {"learning_rate": 0.0},
        {"sharpness": -1.0},
        {"short_steps": -1},
        {"short_context": 0},
    ],
)
def test_refuses_impossible_settings(transcripts: Callable[[int], Iterator], wrong: dict) -> None:
    with pytest.raises(UserError, match=f"WarmUp.{next(iter(wrong))} "):
        WarmUp(transcripts, **wrong)


def test_refuses_an_empty_sampler() -> None:
    with pytest.raises(UserError):
        WarmUp(lambda seed: []).draw()
