"""What the patch is for, on two processes: `tests/training/losses/test_exact_term.py`."""

from __future__ import annotations

import pytest
import verl.models.transformers.monkey_patch as monkey_patch
import verl.utils.fsdp_utils as upstream
from transformers import Qwen2ForCausalLM

from docagent_rl.patches.fused_head_sharding import FUSED

LAYER = ["Qwen2DecoderLayer"]


@pytest.fixture
def model(qwen2_config):
    return Qwen2ForCausalLM(qwen2_config)


def parts(model, select) -> list[str]:
    names = {id(module): name for name, module in model.named_modules()}
    return sorted(names[id(module)] for module in select(model, LAYER))


UNITS = ["lm_head", "model.embed_tokens", "model.layers.0"]


def test_upstream_still_shards_the_head_by_itself(model):
    setattr(model, FUSED, "torch")
    assert parts(model, upstream._select_fsdp2_wrap_targets.__wrapped__) == UNITS


def test_the_head_of_a_model_with_fused_kernels_goes_with_the_root(model):
    assert parts(model, upstream._select_fsdp2_wrap_targets) == UNITS
    setattr(model, FUSED, "torch")
    assert parts(model, upstream._select_fsdp2_wrap_targets) == UNITS[1:]


def test_the_name_is_the_one_that_verl_sets(model):
    monkey_patch.patch_forward_with_backends(model, True, "torch")
    try:
        assert getattr(model, FUSED) == "torch"
    finally:
        vars(model).pop("forward", None)
