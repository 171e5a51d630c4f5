"""verl's fused kernels; `tests/training/workers/test_kl_engine.py` covers two processes with
them.
"""

import pytest
import torch
import verl.models.transformers.monkey_patch as upstream
from transformers import AutoModelForImageTextToText, Qwen2ForCausalLM
from verl.models.transformers import dense_common
from verl.utils import fsdp_utils

from docagent_rl.lab.tiny.shapes import get_shape, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.patches.fused_head_sharding import FUSED

IDS = torch.tensor([[5, 6, 7, 8]])
UNITS = ["lm_head", "model.embed_tokens", "model.layers.0"]


@pytest.fixture
def models(qwen2_config, monkeypatch):
    """Return two models of one class: the policy, and the model on which a critic would put its
    head.
    """
    monkeypatch.setattr(Qwen2ForCausalLM, "forward", Qwen2ForCausalLM.forward)
    return Qwen2ForCausalLM(qwen2_config), Qwen2ForCausalLM(qwen2_config)


def logits(model):
    return model(input_ids=IDS, return_dict=True).logits


def parts(model, select) -> list[str]:
    names = {id(module): name for name, module in model.named_modules()}
    return sorted(names[id(module)] for module in select(model, ["Qwen2DecoderLayer"]))


def test_upstream_still_changes_every_model_of_the_class(models):
    policy, other = models
    upstream.patch_forward_with_backends.__wrapped__(policy, True, "torch")
    assert logits(other) is None


def test_the_one_model_gives_log_probs_and_others_of_its_class_keep_their_logits(models):
    policy, other = models
    expected = logits(other)
    chosen = logits(policy).log_softmax(-1)[:, :-1].gather(-1, IDS[:, 1:, None])[..., 0]
    upstream.patch_forward_with_backends(
        policy, use_fused_kernels=True, fused_kernels_backend="torch"
    )
    assert torch.equal(logits(other), expected)
    found = policy(input_ids=IDS, return_dict=True)
    assert found.logits is None
    assert torch.allclose(found.log_probs[:, :-1], chosen, atol=1e-6)


def test_the_head_of_a_model_with_fused_kernels_goes_with_the_root(models):
    policy, other = models
    upstream.patch_forward_with_backends(policy, True, "torch")
    assert getattr(policy, FUSED) == "torch"
    ours = fsdp_utils._select_fsdp2_wrap_targets
    assert parts(policy, ours.__wrapped__) == UNITS  # else the patch is not needed
    assert parts(policy, ours) == UNITS[1:]
    assert parts(other, ours) == UNITS


def test_a_model_that_verl_does_not_list_sees_its_images_with_fused_kernels():
    shape = get_shape("internvl")
    config = tiny_config(build_tokenizer((), shape.tokens, shape.attributes), "internvl")
    config.vision_config.image_size = [28, 28]  # one token
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config).eval()
    ids = torch.tensor([[5, config.image_token_id, 6, 7]])
    row = {"input_ids": ids, "pixel_values": torch.randn(1, 3, 28, 28), "return_dict": True}
    with torch.no_grad():
        chosen = model(**row).logits.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
        upstream.patch_forward_with_backends(
            model, use_fused_kernels=True, fused_kernels_backend="torch"
        )
        ours = model(**row).log_probs[:, :-1]
        blind = dense_common.forward_with_torch_backend.__wrapped__(model, **row).log_probs[:, :-1]
    assert torch.allclose(ours, chosen, atol=1e-6)
    assert not torch.allclose(
        blind[:, 1:], chosen[:, 1:], atol=1e-3
    )  # else the patch is not needed
