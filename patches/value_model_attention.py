"""The value model uses the configured attention implementation.

Upstream: verl 0.9.1, `verl/utils/model.py`, `load_valuehead_model`. It loads every value model with
`attn_implementation="flash_attention_2"`, whatever
`critic.model.override_config.attn_implementation` is, and so fails without flash attention.

Here the configured implementation is used. If it is flash attention (verl's default), but neither
flash-attn nor torch (`patches/flash_attention_by_torch.py`) provides it, `sdpa` is used with a
warning. In addition, trl's value head makes the model compute logits over the whole vocabulary,
casts them to float32 and discards them (17 GB for 19,000 tokens of a 7B model): here the language
model's head only gets the last position.

No longer needed once verl passes the configured implementation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import torch

from docagent_rl.training.patching import TRAINING, Patch, replace

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

FLASH_ATTENTION = "flash_attention_2"
TOKEN_CLASSIFIER = "AutoModelForTokenClassification"


def attention_implementation(config: Any) -> str:
    """Return the attention implementation in `config`, or `sdpa` if that is not available."""
    from transformers.modeling_flash_attention_utils import FLASH_ATTENTION_COMPATIBILITY_MATRIX

    requested = config._attn_implementation or FLASH_ATTENTION
    available = cast(
        "Callable[[], bool]", FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]["general_availability_check"]
    )
    if requested == FLASH_ATTENTION and not available():
        logger.warning("the value model uses sdpa: flash attention is not available here")
        return "sdpa"
    return requested


def load_valuehead_model(
    local_path: str, torch_dtype: torch.dtype, model_config: Any, trust_remote_code: bool
) -> torch.nn.Module:
    """Load a token classifier if transformers has one for the model; otherwise add trl's value
    head.
    """
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


def _with_value_head(model: PreTrainedModel, model_config: Any) -> torch.nn.Module:
    from trl.experimental.ppo import AutoModelForCausalLMWithValueHead
    from verl.utils.model import patch_valuehead_model

    model.get_output_embeddings().register_forward_pre_hook(_last_position)
    if hasattr(model_config, "text_config"):
        model.config.hidden_size = model_config.text_config.hidden_size  # trl reads the head's size
    wrapped = AutoModelForCausalLMWithValueHead.from_pretrained(model)
    patch_valuehead_model(wrapped)
    return wrapped


def _last_position(
    _head: torch.nn.Module, states: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """Return (b, 1, d) from (b, t, d) hidden states, as a critic's logits are not used."""
    return (states[0][:, -1:],)


def _apply(module: ModuleType) -> None:
    replace(module, "load_valuehead_model", load_valuehead_model)


PATCH = Patch(
    name="value_model_attention",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/model.py::load_valuehead_model",
    reason="value models are loaded with flash attention, whatever the configuration says",
    target_module="verl.utils.model",
    apply=_apply,
    processes=TRAINING,
)
