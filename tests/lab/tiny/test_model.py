import pytest
import torch
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.model import build_tiny_model


def weights(path):
    return (path / "model.safetensors").read_bytes()


def test_loads_like_a_hub_checkpoint(checkpoint):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model, report = AutoModelForImageTextToText.from_pretrained(
        checkpoint, output_loading_info=True
    )
    assert type(model) is Qwen2_5_VLForConditionalGeneration
    assert not report["missing_keys"] | report["unexpected_keys"]
    assert model.dtype == torch.float32
    config, id_of = model.config, tokenizer.convert_tokens_to_ids
    assert (config.model_type, config.architectures) == ("qwen2_5_vl", [type(model).__name__])
    assert (
        model.get_input_embeddings().num_embeddings
        == len(tokenizer)
        == config.text_config.vocab_size
    )
    for name in ("image", "video"):
        assert getattr(config, f"{name}_token_id") == id_of(f"<|{name}_pad|>")
    for name in ("start", "end"):
        assert getattr(config, f"vision_{name}_token_id") == id_of(f"<|vision_{name}|>")
    generation = GenerationConfig.from_pretrained(checkpoint)
    assert generation.eos_token_id == id_of(["<|im_end|>", "<|endoftext|>"])
    assert generation.pad_token_id == tokenizer.pad_token_id == id_of("<|endoftext|>")


def test_the_seed_decides_the_weights_alone(checkpoint, tmp_path):
    other = build_tiny_model(tmp_path, seed=1)  # into an empty folder
    assert weights(other) != weights(checkpoint)
    names = {file.name for file in checkpoint.iterdir()}
    assert names == {file.name for file in other.iterdir()}
    for name in names - {"model.safetensors"}:
        assert (other / name).read_bytes() == (checkpoint / name).read_bytes(), name
    before = (other / "model.safetensors").stat().st_mtime_ns
    assert build_tiny_model(other, seed=2) == other
    assert (other / "model.safetensors").stat().st_mtime_ns == before
    (tmp_path / "config.json").rename(tmp_path / "mine.json")
    with pytest.raises(UserError, match=tmp_path.name):
        build_tiny_model(tmp_path)


DEFAULT = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def turn(role, text):
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


@pytest.mark.parametrize("loader", [AutoTokenizer, AutoProcessor])
def test_its_template_renders_as_qwen2_5_vl(checkpoint, loader):
    loaded = loader.from_pretrained(checkpoint)
    parts = [{"type": "text", "text": "See "}, {"type": "image"}, {"image": "page.png"}]
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "<think>a</think><search>b</search>"},
    ]
    expected = turn("user", f"See {IMAGE}{IMAGE}") + turn("assistant", messages[1]["content"])
    assert loaded.apply_chat_template(messages, tokenize=False) == DEFAULT + expected
    told = [{"role": "system", "content": "Be brief. {{ x }}"}, *messages]
    found = loaded.apply_chat_template(told, tokenize=False, add_generation_prompt=True)
    assert found == turn("system", "Be brief. {{ x }}") + expected + "<|im_start|>assistant\n"
