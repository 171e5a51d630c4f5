from __future__ import annotations

import pytest
from transformers import Qwen3Config

from docagent_rl.training.settings.architectures import KNOWN, known_model, model_config

PUBLISHED = {
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-4B": 4_022_468_096,
}
"""Parameters, as the checkpoints' files count them."""


@pytest.mark.parametrize("name", KNOWN)
def test_models_have_as_many_parameters_as_their_checkpoints(name):
    model = known_model(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_a_folder_says_what_its_model_is(tmp_path):
    Qwen3Config(hidden_size=64).save_pretrained(tmp_path)
    assert model_config(str(tmp_path)).hidden_size == 64


def test_other_names_are_left_to_the_hub():
    assert known_model("somebody/model") is None
