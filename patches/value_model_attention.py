"""The value model's attention follows the model configuration.

Upstream: verl 0.9.1, `verl/utils/model.py`, `load_valuehead_model`. It loads every value model with
`attn_implementation="flash_attention_2"`, whatever `critic.model.override_config.attn_implementation` says,
and so fails wherever flash-attn is not installed.

Here the implementation is the configured one; flash attention that is configured (it is verl's default) but
not importable becomes `sdpa`, with a warning.

Unneeded once verl passes the configured implementation.
"""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

import torch

from docagent_rl.patching import Patch, replace

logger = logging.getLogger(__name__)

FLASH_ATTENTION = "flash_attention_2"
TOKEN_CLASSIFIER = "AutoModelForTokenClassification"


def attention_implementation(config: Any) -> str:
    """Return the attention implementation that `config` asks for, or `sdpa` where that cannot be had."""
    from transformers.utils import is_flash_attn_2_available

    requested = config._attn_implementation or FLASH_ATTENTION
    if requested == FLASH_ATTENTION and not is_flash_attn_2_available():
        logger.warning("the value model uses sdpa: flash-attn is not installed")
        return "sdpa"
    return requested


def load_valuehead_model(
    local_path: str, torch_dtype: torch.dtype, model_config: Any, trust_remote_code: bool
) -> torch.nn.Module:
    """Load a token classifier where transformers has one for the model, else add trl's value head."""
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForTokenClassification,
    )

    options = {
        "config": model_config,
        "torch_dtype": torch_dtype,
        "attn_implementation": attention_implementation(model_config),
        "trust_remote_code": trust_remote_code,
    }
    in_remote_code = trust_remote_code and TOKEN_CLASSIFIER in getattr(model_config, "auto_map", {})
    if in_remote_code or type(model_config) in AutoModelForTokenClassification._model_mapping:
        return AutoModelForTokenClassification.from_pretrained(local_path, **options)
    is_vision_language = type(model_config) in AutoModelForImageTextToText._model_mapping
    auto_class = AutoModelForImageTextToText if is_vision_language else AutoModelForCausalLM
    return _with_value_head(auto_class.from_pretrained(local_path, **options), model_config)


def _with_value_head(model: torch.nn.Module, model_config: Any) -> torch.nn.Module:
    from trl.experimental.ppo import AutoModelForCausalLMWithValueHead
    from verl.utils.model import patch_valuehead_model

    if hasattr(model_config, "text_config"):
        model.config.hidden_size = model_config.text_config.hidden_size  # trl sizes the head by it
    wrapped = AutoModelForCausalLMWithValueHead.from_pretrained(model)
    patch_valuehead_model(wrapped)
    return wrapped


def _apply(module: ModuleType) -> None:
    replace(module, "load_valuehead_model", load_valuehead_model)


PATCH = Patch(
    name="value_model_attention",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/model.py::load_valuehead_model",
    reason="value models are loaded with flash attention whatever the configuration says",
    target_module="verl.utils.model",
    apply=_apply,
)
